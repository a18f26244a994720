// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/**
 * Indices that are given out and given back. One that was given back rests before it is given out again: an answer that
 * still means the old thing by it has come by then, or is about something else that is checked as well.
 */
final class Indices {
  static final long REST_MS = 1000;

  private final long restMs;
  private final Deque<long[]> free = new ArrayDeque<>();
  private int size;

  /** Indices that are given out again {@code restMs} milliseconds after they were given back. */
  Indices(long restMs) {
    this.restMs = restMs;
  }

  int take(long nowMs) {
    long[] first = free.peek();
    if (first == null || nowMs - first[1] < restMs) {
      return size++;
    }
    return (int) free.poll()[0];
  }

  void giveBack(int index, long nowMs) {
    free.add(new long[] {index, nowMs});
  }

  /** Puts a row at its index in a list of all: at the end, or in place of one that has gone. */
  static <T> void put(List<T> byIndex, int index, T row) {
    if (index == byIndex.size()) {
      byIndex.add(row);
    } else {
      byIndex.set(index, row);
    }
  }

  /** One more than the highest that was given out. */
  int size() {
    return size;
  }
}

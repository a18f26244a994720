// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Indices that are given out and given back. One that was given back rests before it is given out again: an answer that
 * still means the old thing by it has come by then, or is about something else that is checked as well.
 */
final class Indices {
  static final long REST_MS = 1000;

  private final int kept;
  private final long restMs;
  private final Deque<long[]> free = new ArrayDeque<>();
  private int size;

  /** Of these indices the first {@code kept} are given out once, the others again after {@code restMs} milliseconds. */
  Indices(int kept, long restMs) {
    this.kept = kept;
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
    if (index >= kept) {
      free.add(new long[] {index, nowMs});
    }
  }

  /** One more than the highest that was given out. */
  int size() {
    return size;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.IntFunction;

/**
 * Rows by index. An index whose row has gone rests before another row gets it: an answer that still means the old row
 * by it has come by then, or is about something else that is checked as well.
 */
final class Indices<T> {
  static final long REST_MS = 1000;

  private final long restMs;
  /** With null where a row has gone. */
  private final List<T> rows = new ArrayList<>();
  private final Deque<long[]> free = new ArrayDeque<>();

  /** No rows yet; an index is used again {@code restMs} milliseconds after its row has gone. */
  Indices(long restMs) {
    this.restMs = restMs;
  }

  /** Makes a row for an index that is free; returns the row. */
  T add(IntFunction<T> make, long nowMs) {
    long[] first = free.peek();
    boolean again = first != null && nowMs - first[1] >= restMs;
    T row = make.apply(again ? (int) free.poll()[0] : rows.size());
    if (again) {
      rows.set((int) first[0], row);
    } else {
      rows.add(row);
    }
    return row;
  }

  /** The row has gone. */
  void remove(int index, long nowMs) {
    rows.set(index, null);
    free.add(new long[] {index, nowMs});
  }

  /** The row of an index below {@link #size}; null if it has gone. */
  T get(int index) {
    return rows.get(index);
  }

  /** One more than the highest index that was given out. */
  int size() {
    return rows.size();
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.Arrays;

/**
 * A map from small indices to what was found out about them, emptied after each batch. Neither boxes nor keeps anything
 * alive between batches.
 */
final class IndexCache<T> {
  private Object[] values = new Object[64];
  private int[] filled = new int[64];
  private int size;

  @SuppressWarnings("unchecked")
  T get(int index) {
    return index < values.length ? (T) values[index] : null;
  }

  /** Keeps a value for an index that has none; indices are bounded by what the frames gave out. */
  void put(int index, T value) {
    if (index >= values.length) {
      values = Arrays.copyOf(values, Math.max(index + 1, values.length * 2));
    }
    if (size == filled.length) {
      filled = Arrays.copyOf(filled, size * 2);
    }
    values[index] = value;
    filled[size++] = index;
  }

  void clear() {
    for (int i = 0; i < size; i++) {
      values[filled[i]] = null;
    }
    size = 0;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.nio.ByteBuffer;
import java.util.Arrays;

/** One column of fixed width that grows at its end. Values are kept unencoded and copied to a frame in one go. */
final class Column {
  private static final int FIRST_CAPACITY = 16;

  private final int width;
  private byte[] bytes;
  private int[] ints;
  private long[] longs;
  private int size;

  Column(ColumnType type) {
    width = type.width();
    allocate(FIRST_CAPACITY);
  }

  private void allocate(int capacity) {
    bytes = width == 1 ? new byte[capacity] : null;
    ints = width == 4 ? new int[capacity] : null;
    longs = width == 8 ? new long[capacity] : null;
  }

  /** Appends a value, of which the column keeps its width. */
  void put(long value) {
    if (width == 1) {
      bytes = size == bytes.length ? Arrays.copyOf(bytes, 2 * size) : bytes;
      bytes[size++] = (byte) value;
    } else if (width == 4) {
      ints = size == ints.length ? Arrays.copyOf(ints, 2 * size) : ints;
      ints[size++] = (int) value;
    } else {
      longs = size == longs.length ? Arrays.copyOf(longs, 2 * size) : longs;
      longs[size++] = value;
    }
  }

  int intAt(int row) {
    return ints[row];
  }

  int width() {
    return width;
  }

  /** Forgets the values; gives memory back if the column had grown beyond {@code keep} values. */
  void clear(int keep) {
    size = 0;
    if (capacity() > keep) {
      allocate(FIRST_CAPACITY);
    }
  }

  private int capacity() {
    if (width == 1) {
      return bytes.length;
    }
    return width == 4 ? ints.length : longs.length;
  }

  /** Appends {@code count} values from {@code from} on to a little-endian buffer. */
  void copy(int from, int count, ByteBuffer target) {
    int end = target.position() + count * width;
    if (width == 1) {
      target.put(bytes, from, count);
    } else if (width == 4) {
      target.asIntBuffer().put(ints, from, count);
    } else {
      target.asLongBuffer().put(longs, from, count);
    }
    target.position(end);
  }
}

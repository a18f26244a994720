package io.treadle.shim.mirror;

import io.treadle.shim.wire.Fate;
import java.util.Arrays;

/** Fates of proposals as columns that grow: thousands a second, so no object for each. */
final class FateColumns {
  private long[] sequences = new long[64];
  private int[] positions = new int[64];
  private byte[] fates = new byte[64];
  private int size;

  void add(long sequence, int position, Fate fate) {
    if (size == sequences.length) {
      int more = 2 * size;
      sequences = Arrays.copyOf(sequences, more);
      positions = Arrays.copyOf(positions, more);
      fates = Arrays.copyOf(fates, more);
    }
    sequences[size] = sequence;
    positions[size] = position;
    fates[size] = (byte) fate.code();
    size++;
  }

  /** Forgets all, and keeps the room for as many. */
  void clear() {
    size = 0;
  }

  /** The number of fates. */
  int size() {
    return size;
  }

  /** The frame that was answered. */
  long sequence(int row) {
    return sequences[row];
  }

  /** The proposal's position in the answer. */
  int position(int row) {
    return positions[row];
  }

  /** The code of a {@link Fate}. */
  int fate(int row) {
    return fates[row];
  }
}

package io.treadle.shim.journal;

import io.treadle.shim.wire.Fate;
import java.util.Arrays;

/** Fates of proposals as columns that grow: thousands a second, so no object for each. */
public final class FateColumns {
  private long[] sequences = new long[64];
  private int[] positions = new int[64];
  private byte[] fates = new byte[64];
  private int size;

  FateColumns() {
  }

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

  /** The number of fates. */
  public int size() {
    return size;
  }

  /** The frame that was answered. */
  public long sequence(int row) {
    return sequences[row];
  }

  /** The proposal's position in the answer. */
  public int position(int row) {
    return positions[row];
  }

  /** The code of a {@link Fate}. */
  public int fate(int row) {
    return fates[row];
  }
}

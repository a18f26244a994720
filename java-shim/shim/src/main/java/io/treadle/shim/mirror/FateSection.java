// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.util.Arrays;

/** Keeps the fates of proposals, in columns that grow: thousands a second, so no object for each; and writes them. */
final class FateSection {
  private static final int FIRST_CAPACITY = 64;

  private long[] sequences;
  private int[] positions;
  private byte[] fates;
  private int size;

  FateSection() {
    reset();
  }

  /** Forgets all, and gives the memory back. */
  void reset() {
    sequences = new long[FIRST_CAPACITY];
    positions = new int[FIRST_CAPACITY];
    fates = new byte[FIRST_CAPACITY];
    size = 0;
  }

  /** Forgets all, and keeps the room for as many. */
  void clear() {
    size = 0;
  }

  int size() {
    return size;
  }

  /** The fate of the proposal at a position of the answer to a frame. */
  void add(long sequence, int position, Fate fate) {
    if (size == sequences.length) {
      sequences = Arrays.copyOf(sequences, 2 * size);
      positions = Arrays.copyOf(positions, 2 * size);
      fates = Arrays.copyOf(fates, 2 * size);
    }
    sequences[size] = sequence;
    positions[size] = position;
    fates[size] = (byte) fate.code();
    size++;
  }

  /** Writes a row for adjacent proposals of one fate. */
  void write(Draft draft) {
    SectionWriter rows = draft.section(Section.FATES);
    int first = 0;
    for (int i = 1; i <= size; i++) {
      if (i == size || !goesOn(i)) {
        rows.i64(sequences[first]).i32(positions[first]).i32(i - first).u8(fates[first]).end();
        first = i;
      }
    }
  }

  private boolean goesOn(int i) {
    return sequences[i] == sequences[i - 1] && fates[i] == fates[i - 1] && positions[i] == positions[i - 1] + 1;
  }
}

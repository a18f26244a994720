// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;

/** Makes the answers of an engine. */
public final class Answers {
  private static final int TRANSACTIONS = 4;

  private static final int HELD = 16;
  private static final int HEADER_BYTES = 40;

  private Answers() { }

  /**
   * The bytes of an answer; nothing of it is checked. Parameters are in the order of the header.
   *
   * @param flags the flags of the header
   * @param epoch the epoch of the frame that is answered
   * @param sequence the sequence number of that frame
   * @param micros time spent in the engine, microseconds
   * @param status a JSON object, or empty
   * @param rows each {application, request key, node}, and the transaction if the flags have it
   */
  public static byte[] encode(int flags, long epoch, long sequence, long micros, String status, int[]... rows) {
    return encode(flags, epoch, sequence, micros, status, new BitSet(), new BitSet(), rows);
  }

  /** The same with what is held back on purpose: applications and nodes, by their indices. */
  public static byte[] encode(int flags, long epoch, long sequence, long micros, String status,
      BitSet heldApplications, BitSet heldNodes, int[]... rows) {
    byte[] text = status.getBytes(StandardCharsets.UTF_8);
    int columns = (flags & TRANSACTIONS) != 0 ? 4 : 3;
    byte[] applications = heldApplications.toByteArray();
    byte[] nodes = heldNodes.toByteArray();
    int held = (flags & HELD) == 0 ? 0 : 2 * Integer.BYTES + applications.length + nodes.length;
    ByteBuffer bytes = ByteBuffer.allocate(HEADER_BYTES + Integer.BYTES * columns * rows.length + held + text.length)
        .order(ByteOrder.LITTLE_ENDIAN);
    bytes.put("TRDP".getBytes(StandardCharsets.US_ASCII));
    bytes.putShort((short) FrameWriter.VERSION).putShort((short) flags);
    bytes.putLong(epoch).putLong(sequence).putLong(micros).putInt(rows.length).putInt(text.length);
    for (int column = 0; column < columns; column++) {
      for (int[] row : rows) {
        bytes.putInt(row[column]);
      }
    }
    if (held > 0) {
      bytes.putInt(applications.length).putInt(nodes.length).put(applications).put(nodes);
    }
    return bytes.put(text).array();
  }

  /** An answer that proposes each {application, request key, node}, in this order. */
  public static ProposalFrame of(int[]... proposals) {
    return parsed(0, proposals);
  }

  /** The same, all of them in one transaction. */
  public static ProposalFrame together(int[]... proposals) {
    int[][] rows = new int[proposals.length][];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = Arrays.copyOf(proposals[i], 4);
    }
    return parsed(TRANSACTIONS, rows);
  }

  private static ProposalFrame parsed(int flags, int[][] rows) {
    try {
      return ProposalFrame.parse(encode(flags, 1, 1, 0, "", rows), rows.length);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}

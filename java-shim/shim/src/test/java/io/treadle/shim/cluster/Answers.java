package io.treadle.shim.cluster;

import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Makes the answers of an engine. */
public final class Answers {
  private Answers() { }

  /** An answer that proposes each {application, request key, node}, in this order. */
  public static ProposalFrame of(int[]... proposals) {
    ByteBuffer bytes = ByteBuffer.allocate(ProposalFrame.HEADER_BYTES + 12 * proposals.length)
        .order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(new byte[] {'T', 'R', 'D', 'P'}).putShort((short) FrameWriter.VERSION).putShort((short) 0);
    bytes.putLong(1).putLong(1).putLong(1).putLong(0).putInt(proposals.length).putInt(0);
    for (int column = 0; column < 3; column++) {
      for (int[] proposal : proposals) {
        bytes.putInt(proposal[column]);
      }
    }
    try {
      return ProposalFrame.parse(bytes.array(), proposals.length);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}

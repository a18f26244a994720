package io.treadle.shim.cluster;

import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;

/** Makes the answers of an engine. */
public final class Answers {
  private Answers() { }

  /** An answer that proposes each {application, request key, node}, in this order. */
  public static ProposalFrame of(int[]... proposals) {
    try {
      return ProposalFrame.parse(ProposalFrame.encode(0, 1, 1, 0, "", proposals), proposals.length);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.Arrays;

/** Makes the answers of an engine. */
public final class Answers {
  private static final int TRANSACTIONS = 4;

  private Answers() { }

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
      return ProposalFrame.parse(ProposalFrame.encode(flags, 1, 1, 0, "", rows), rows.length);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}

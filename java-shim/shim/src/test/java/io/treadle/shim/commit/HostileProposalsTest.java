// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Proposals at random, most wrong, while applications ask and give back: no limit is broken, usage adds up. */
class HostileProposalsTest {
  private static final long SEED = 3;
  private static final int ROUNDS = 100;
  private static final int PROPOSALS = 200;

  @Test
  void noLimitIsBroken() throws Exception {
    Set<Fate> expected = EnumSet.of(Fate.COMMITTED, Fate.NEGATIVE, Fate.OUT_OF_RANGE, Fate.UNKNOWN_APPLICATION,
        Fate.FINISHED_ATTEMPT, Fate.INACTIVE_APPLICATION, Fate.UNKNOWN_REQUEST, Fate.NO_PENDING_ASK, Fate.DUPLICATE,
        Fate.UNKNOWN_NODE, Fate.NODE_STALE, Fate.NODE_RESERVED, Fate.BLACKLISTED, Fate.WRONG_PARTITION, Fate.LOCALITY,
        Fate.NODE_FULL, Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.OVER_BATCH);
    try (HostileSiege siege = new HostileSiege(SEED)) {
      for (int round = 0; round < ROUNDS; round++) {
        siege.round(PROPOSALS);
      }
      expected.removeAll(siege.seen());
    }
    assertEquals(Collections.emptySet(), expected, "fates that were never given");
  }

  /** Judging is right if what it lets pass is what a commit then takes. */
  @Test
  void judgementForetellsTheCommit() throws Exception {
    int differences = 0;
    int judgements = 0;
    try (HostileSiege siege = new HostileSiege(SEED)) {
      for (int round = 0; round < ROUNDS; round++) {
        siege.applicationsMove();
        int[][] rows = new int[30][];
        for (int i = 0; i < rows.length; i++) {
          rows[i] = anything(siege.proposer().indices(), siege.random());
        }
        Map<String, String> before = new Accounting(siege.cluster().scheduler()).snapshot();
        CommitResult judged = propose(siege.proposer(), rows).judge();
        assertEquals(before, new Accounting(siege.cluster().scheduler()).snapshot());
        CommitResult committed = propose(siege.proposer(), rows).commit();
        for (int i = 0; i < rows.length; i++) {
          judgements++;
          differences += judged.fate(i).isRejection() == committed.fate(i).isRejection() ? 0 : 1;
        }
      }
    }
    assertTrue(differences * 50 < judgements, differences + " of " + judgements + " judgements were wrong");
  }

  private static int[] anything(NamedIndices names, Random random) {
    int application = random.nextInt(names.applications());
    return new int[] {application, random.nextInt(Math.max(1, names.requestKeys(application))),
        random.nextInt(names.nodes())};
  }

  private static Proposer propose(Proposer proposer, int[]... rows) {
    for (int[] row : rows) {
      proposer.add(row[0], row[1], row[2]);
    }
    return proposer;
  }
}

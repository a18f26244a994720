package io.treadle.shim;

import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** The outcomes of an answer's transactions: what an application gets in one answer is one. */
final class Transactions {
  /** What others have made impossible since the engine looked. */
  private static final Set<Fate> CONFLICTS = EnumSet.of(Fate.CHANGED, Fate.NODE_FULL, Fate.NODE_RESERVED,
      Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.STALE_STATE, Fate.NOT_OWNER);
  private static final int PLACED = 1;
  private static final int CONFLICTED = 2;

  private Transactions() { }

  /** Counts them, and the time that the engine decided. */
  static void count(ProposalFrame answer, CommitResult result, ShimMetrics metrics) {
    Map<Integer, Integer> outcomes = new HashMap<>();
    for (int position = 0; position < result.size(); position++) {
      Fate fate = result.fate(position);
      int outcome = fate == Fate.COMMITTED ? PLACED : CONFLICTS.contains(fate) ? CONFLICTED : 0;
      outcomes.merge(answer.application(position), outcome, (a, b) -> a | b);
    }
    int succeeded = 0;
    int conflicted = 0;
    for (int outcome : outcomes.values()) {
      succeeded += outcome == PLACED ? 1 : 0;
      conflicted += (outcome & CONFLICTED) != 0 ? 1 : 0;
    }
    metrics.transactions(succeeded, conflicted, outcomes.size() - succeeded - conflicted, answer.decideMicros());
  }
}

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
      Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.STALE_STATE);
  private static final int PLACED = 1;
  private static final int CONFLICTED = 2;

  private int succeeded;
  private int conflicted;
  private int empty;

  private Transactions() { }

  static Transactions of(ProposalFrame answer, CommitResult result) {
    Map<Integer, Integer> outcomes = new HashMap<>();
    for (int position = 0; position < result.size(); position++) {
      Fate fate = result.fate(position);
      int outcome = fate == Fate.COMMITTED ? PLACED : CONFLICTS.contains(fate) || fate == Fate.NOT_OWNER ? CONFLICTED : 0;
      outcomes.merge(answer.application(position), outcome, (a, b) -> a | b);
    }
    Transactions counts = new Transactions();
    for (int outcome : outcomes.values()) {
      if ((outcome & CONFLICTED) != 0) {
        counts.conflicted++;
      } else if (outcome == PLACED) {
        counts.succeeded++;
      } else {
        counts.empty++;
      }
    }
    return counts;
  }

  void count(ShimMetrics metrics, long micros) {
    metrics.transactions(succeeded, conflicted, empty, micros);
  }
}

package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.Log;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/**
 * Commits transactions of several proposals: each is judged as if those before it were there, and only when all can be
 * is the first one committed. The caller holds the scheduler's write lock, and the AM's {@link AskLocks}.
 *
 * <p>This judgement covers nearly everything that a commit checks. What is left may change between the two: a node leaves
 * its state RUNNING, a container is given back and with it the limit of a user falls, a constraint is about other
 * containers of the transaction. Then what was committed is taken back, before the AM has heard of it.
 */
final class Gangs {
  private static final Log LOG = new Log(Gangs.class);
  /** The most rows: they are committed under one hold of the lock. */
  static final int ROWS_MAX = 512;

  private static final String TAKEN_BACK = "another container of the transaction could not be placed";

  private final CapacityScheduler scheduler;
  private final Checks checks;
  private final Diagnosis diagnosis;
  private final Claim claim;
  private final Reservations reservations;
  private final CommitListener listener;

  Gangs(CapacityScheduler scheduler, Checks checks, Diagnosis diagnosis, Claim claim, Reservations reservations,
      CommitListener listener) {
    this.scheduler = scheduler;
    this.checks = checks;
    this.diagnosis = diagnosis;
    this.claim = claim;
    this.reservations = reservations;
    this.listener = listener;
  }

  /** Decides on one transaction. */
  private static final class Outcome {
    final Fate[] fates;
    final ContainerId[] containers;
    final List<Placement> placements = new ArrayList<>();
    boolean refused;

    Outcome(int rows) {
      fates = new Fate[rows];
      containers = new ContainerId[rows];
    }

    void refuse(int row, Fate fate) {
      fates[row] = fate;
      refused = true;
    }
  }

  /**
   * Commits or judges the rows in [from, to) of an answer, all of one application, and sets their fates.
   *
   * @param assumptions what earlier rows would have taken, if the answer is only judged; else null
   */
  void decide(ProposalFrame answer, int from, int to, CommitResult result, Resource cluster, Assumptions assumptions) {
    Outcome outcome = new Outcome(to - from);
    Assumptions assumed = assumptions == null ? new Assumptions() : assumptions;
    for (int row = 0; row < to - from; row++) {
      judge(answer, from + row, row, outcome, cluster, assumed, assumptions == null);
    }
    if (!outcome.refused && assumptions == null) {
      commit(outcome, cluster);
    } else if (outcome.refused && assumptions != null) {
      outcome.placements.forEach(placement -> assumptions.remove(placement, LeafQueues.user(placement.leaf,
          placement.app.getUser()), claim));
    }
    Fate good = assumptions == null ? Fate.COMMITTED : Fate.OBSERVED;
    for (int row = 0; row < to - from; row++) {
      Fate fate = outcome.fates[row] != null ? outcome.fates[row] : outcome.refused ? Fate.TRANSACTION : good;
      result.set(from + row, fate, outcome.refused ? null : outcome.containers[row]);
    }
  }

  private void judge(ProposalFrame answer, int position, int row, Outcome outcome, Resource cluster,
      Assumptions assumed, boolean commits) {
    try {
      Placement placement = new Placement();
      Fate fate = checks.check(answer.application(position), answer.requestKey(position), answer.node(position),
          placement, assumed);
      if (fate == Fate.NODE_RESERVED && commits) {
        reservations.releaseLocked(placement.node);
      }
      if (fate == null) {
        fate = diagnosis.reasonAgainst(placement, cluster, assumed);
        if (fate != null && commits && diagnosis.queue() != null) {
          listener.limitReached(fate, diagnosis.queue());
        }
      }
      if (fate == null && claim.isExceededBy(placement, cluster, assumed)) {
        fate = Fate.CLAIM;
      }
      if (fate == null) {
        assumed.add(placement, LeafQueues.user(placement.leaf, placement.app.getUser()), claim);
        outcome.placements.add(placement);
      } else {
        outcome.refuse(row, fate);
      }
    } catch (Throwable e) {
      outcome.refuse(row, failed(e));
    }
  }

  private void commit(Outcome outcome, Resource cluster) {
    for (int row = 0; row < outcome.placements.size() && !outcome.refused; row++) {
      Placement placement = outcome.placements.get(row);
      try {
        // once more: those before it may have used up what was asked for on this node
        Fate fate = checks.checkPlace(placement);
        ContainerId container = fate == null ? ContainerCommit.tryCommit(scheduler, cluster, placement) : null;
        if (container == null) {
          fate = fate == null ? diagnosis.reasonAgainst(placement, cluster, Assumptions.NONE) : fate;
          outcome.refuse(row, fate == null ? Fate.STALE_STATE : fate);
        }
        outcome.containers[row] = container;
      } catch (Throwable e) {
        outcome.refuse(row, failed(e));
      }
    }
    if (outcome.refused) {
      takeBack(outcome);
    } else {
      outcome.placements.forEach(claim::committed);
    }
  }

  private void takeBack(Outcome outcome) {
    listener.transactionTakenBack();
    for (int row = outcome.containers.length - 1; row >= 0; row--) {
      ContainerId container = outcome.containers[row];
      try {
        if (container != null) {
          scheduler.completedContainer(scheduler.getRMContainer(container),
              SchedulerUtils.createKilledContainerStatus(container, TAKEN_BACK), RMContainerEventType.KILL);
        }
      } catch (Throwable e) {
        failed(e);
      }
    }
  }

  private Fate failed(Throwable e) {
    LOG.failure("a transaction", e);
    listener.internalError(e);
    return Fate.INTERNAL_ERROR;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/**
 * Judges transactions of several proposals, each as if those before it were there, and takes back what was committed of
 * one of which the rest could not be. Judging covers nearly everything that a commit checks. What is left may change
 * from then to the last commit: a node goes, the limit of a user falls, a request with constraints is placed, a
 * constraint is about other containers of the transaction.
 */
final class Gangs {
  private static final String TAKEN_BACK = "another container of the transaction could not be placed";

  private final CapacityScheduler scheduler;
  private final Diagnosis diagnosis;

  Gangs(CapacityScheduler scheduler, Diagnosis diagnosis) {
    this.scheduler = scheduler;
    this.diagnosis = diagnosis;
  }

  /**
   * Judges the rows in [from, to) of an answer, all of one application: sets the fates of all, {@link Fate#OBSERVED} if
   * none is refused. The caller holds a lock of the scheduler.
   *
   * @param assumptions what earlier rows would have taken; gets what these would, if none is refused
   */
  void judge(ProposalFrame answer, int from, int to, CommitResult result, Checks checks, Assumptions assumptions) {
    List<Placement> placements = new ArrayList<>();
    for (int position = from; position < to; position++) {
      Placement placement = new Placement();
      Fate fate;
      try {
        fate = checks.check(answer.application(position), answer.requestKey(position), answer.node(position),
            placement, assumptions);
        fate = fate == null ? diagnosis.reasonAgainst(placement, assumptions) : fate;
      } catch (Throwable e) {
        result.failed("a transaction", e);
        fate = Fate.INTERNAL_ERROR;
      }
      if (fate == null) {
        assumptions.add(placement, LeafQueues.user(placement.leaf, placement.app.getUser()));
        placements.add(placement);
      }
      result.set(position, fate == null ? Fate.OBSERVED : fate, null);
    }
    if (placements.size() < to - from) {
      placements.forEach(
          placement -> assumptions.remove(placement, LeafQueues.user(placement.leaf, placement.app.getUser())));
      refuse(result, from, to, Fate.OBSERVED);
    }
  }

  /** Those of the rows in [from, to) that have a fate are refused for another's sake. */
  private static void refuse(CommitResult result, int from, int to, Fate good) {
    for (int position = from; position < to; position++) {
      if (result.fate(position) == good) {
        result.set(position, Fate.TRANSACTION, null);
      }
    }
  }

  /**
   * Takes back what was committed of the rows in [from, to), of which some could not be. The caller holds the AM's
   * lock, so that it has not heard of it.
   */
  void takeBack(CommitResult result, int from, int to) {
    result.countTakenBack();
    for (int position = to - 1; position >= from; position--) {
      ContainerId container = result.container(position);
      try {
        if (container != null) {
          scheduler.completedContainer(scheduler.getRMContainer(container),
              SchedulerUtils.createKilledContainerStatus(container, TAKEN_BACK), RMContainerEventType.KILL);
        }
      } catch (Throwable e) {
        result.failed("a transaction", e);
      }
    }
    refuse(result, from, to, Fate.COMMITTED);
    refuse(result, from, to, Fate.OBSERVED);
  }
}

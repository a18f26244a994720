// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Fate;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Finds out why the RM turned a placement down. Only looks: what may be committed is decided by {@code tryCommit}
 * alone, and this runs after it said no, in the order of its checks. In observe_only, where nothing is committed, it is
 * asked instead of {@code tryCommit}. The caller holds a lock of the scheduler.
 */
final class Diagnosis {
  private final CapacityScheduler scheduler;

  Diagnosis(CapacityScheduler scheduler) {
    this.scheduler = scheduler;
  }

  /**
   * The reason against a placement that has passed the checks.
   *
   * @param assumptions what to count as taken besides what the RM counts
   * @return the reason, or null if none is seen now
   */
  Fate reasonAgainst(Placement placement, Assumptions assumptions) {
    if (placement.app.isStopped()) {
      return Fate.STOPPED_ATTEMPT;
    }
    if (placement.asks.getOutstandingAsksCount(ResourceRequest.ANY) <= assumptions.served(placement.asks)) {
      return Fate.NO_PENDING_ASK;
    }
    if (!placement.asks.canAllocate(placement.locality, placement.node)) {
      return placement.asks.getSchedulingRequest() == null ? Fate.STALE_STATE : Fate.CONSTRAINT;
    }
    Fate againstNode = againstNode(placement, assumptions);
    return againstNode != null ? againstNode : limitAgainst(placement, assumptions);
  }

  /** The limit of a user or a queue against a placement, wherever it is; null if none is. */
  Fate limitAgainst(Placement placement, Assumptions assumptions) {
    if (overUserLimit(placement, assumptions)) {
      return Fate.USER_LIMIT;
    }
    return overQueueMaximum(placement, assumptions) ? Fate.QUEUE_MAXIMUM : null;
  }

  private Fate againstNode(Placement placement, Assumptions assumptions) {
    if (placement.node.getRMNode().getState() != NodeState.RUNNING) {
      return Fate.NODE_NOT_RUNNING;
    }
    if (placement.node.getReservedContainer() != null) {
      return Fate.NODE_RESERVED;
    }
    Resource free = placement.node.getUnallocatedResource();
    Resource assumed = assumptions.used(placement.node, placement.node.getPartition());
    if (assumed != null) {
      free = Resources.subtract(free, assumed);
    }
    return Resources.fitsIn(scheduler.getResourceCalculator(), placement.capability, free) ? null : Fate.NODE_FULL;
  }

  private boolean overUserLimit(Placement placement, Assumptions assumptions) {
    Resource cluster = scheduler.getClusterResource();
    String partition = placement.node.getPartition();
    String name = placement.app.getUser();
    UsersManager.User user = LeafQueues.user(placement.leaf, name);
    if (user == null) {
      return false;
    }
    Resource limit = LeafQueues.activeUserLimit(placement.leaf, name, cluster, partition, placement.mode);
    Resource assumed = assumptions.used(placement.leaf, partition);
    if (assumed != null) {
      limit = grown(limit, placement.leaf, partition, assumed);
    }
    Resource used = plus(user.getUsed(partition), assumptions.used(user, partition));
    // ">" of what is used before this container: a user may pass the limit by one container, as under the stock
    // scheduler
    return Resources.greaterThan(scheduler.getResourceCalculator(), cluster, used, limit);
  }

  /** A user's limit rises with what the queue uses beyond its capacity, up to a multiple of the capacity. */
  private static Resource grown(Resource limit, CSQueue leaf, String partition, Resource assumed) {
    Resource capacity = leaf.getEffectiveCapacity(partition);
    Resource used = leaf.getQueueResourceUsage().getUsed(partition);
    Resource growth = Resources.subtractNonNegative(
        Resources.add(used, assumed), Resources.componentwiseMax(capacity, used));
    Resource raised = Resources.add(limit, growth);
    float factor = LeafQueues.userLimitFactor(leaf);
    return factor < 0 ? raised
        : Resources.componentwiseMin(raised, Resources.componentwiseMax(limit, Resources.multiply(capacity, factor)));
  }

  private boolean overQueueMaximum(Placement placement, Assumptions assumptions) {
    ResourceCalculator calculator = scheduler.getResourceCalculator();
    String partition = placement.node.getPartition();
    RMNodeLabelsManager labels = scheduler.getRMContext().getNodeLabelManager();
    for (CSQueue ancestor = placement.leaf; ancestor != null; ancestor = ancestor.getParent()) {
      Resource maximum = placement.mode == SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY
          ? ancestor.getEffectiveMaxCapacity(partition)
          : labels.getResourceByLabel(partition, scheduler.getClusterResource());
      Resource used = plus(
          ancestor.getQueueResourceUsage().getUsed(partition), assumptions.used(ancestor, partition));
      if (!Resources.fitsIn(calculator, Resources.add(used, placement.capability), maximum)) {
        return true;
      }
    }
    return false;
  }

  private static Resource plus(Resource used, Resource assumed) {
    return assumed == null ? used : Resources.add(used, assumed);
  }
}

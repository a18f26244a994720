// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.thirdparty.com.google.common.collect.Lists;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * The limit of each leaf: the rest left by the queues above it and its siblings. The stock scheduler computes it
 * whenever it tries to place something in the leaf, and the leaf's AM limit is a part of it. While the gate is closed
 * there are no such attempts, and the limit would stay as of the switch. So it is computed here as in a native pass,
 * and set where it differs.
 */
public final class LeafLimits {
  /** How many leaves get another limit before a heartbeat that waits is let in. */
  private static final int LEAVES_A_LOCK = 64;

  private final CapacityScheduler scheduler;
  private final ResourceCalculator calculator;
  private final Resource cluster;
  /** Leaves, and the limits that they do not have yet. */
  private final Map<CSQueue, Resource> changes = new IdentityHashMap<>();

  private LeafLimits(CapacityScheduler scheduler) {
    this.scheduler = scheduler;
    this.calculator = scheduler.getResourceCalculator();
    this.cluster = scheduler.getClusterResource();
  }

  /**
   * Updates the limit of every leaf. Takes the scheduler's read lock, and its write lock only if a limit changed.
   *
   * @return the number of changed limits
   */
  public static int refresh(SchedulerPort port) {
    LeafLimits limits = new LeafLimits(port.scheduler());
    SchedulerPort.locked(port.readLock(), limits::collect);
    for (List<CSQueue> some : Lists.partition(new ArrayList<>(limits.changes.keySet()), LEAVES_A_LOCK)) {
      SchedulerPort.locked(port.writeLock(),
          () -> some.forEach(leaf -> LeafQueues.setLimit(leaf, limits.cluster, limits.changes.get(leaf))));
    }
    return limits.changes.size();
  }

  private void collect() {
    if (!Resources.isNone(cluster)) {
      collect(scheduler.getRootQueue(), scheduler.getRMContext().getNodeLabelManager()
          .getResourceByLabel(CommonNodeLabelsManager.NO_LABEL, cluster));
    }
  }

  /** Like {@code getResourceLimitsOfChild}, which is private before Hadoop 3.4. */
  private void collect(CSQueue queue, Resource limit) {
    Resource least = scheduler.getMinimumResourceCapability();
    if (LeafQueues.isLeaf(queue)) {
      Resource capped = Resources.min(calculator, cluster,
          queue.getEffectiveMaxCapacityDown(CommonNodeLabelsManager.NO_LABEL, least), limit);
      if (!capped.equals(LeafQueues.limit(queue))) {
        changes.put(queue, capped);
      }
    } else if (queue.getChildQueues() != null) {
      Resource capped = Resources.min(calculator, cluster, limit,
          queue.getEffectiveMaxCapacity(CommonNodeLabelsManager.NO_LABEL));
      // nothing of it is killable: lazy preemption, which marks containers so, is refused (FeatureRules)
      Resource left = Resources.subtract(capped, used(queue));
      for (CSQueue child : queue.getChildQueues()) {
        collect(child, Resources.roundDown(calculator, Resources.add(left, used(child)), least));
      }
    }
  }

  private static Resource used(CSQueue queue) {
    return queue.getQueueResourceUsage().getUsed(CommonNodeLabelsManager.NO_LABEL);
  }
}

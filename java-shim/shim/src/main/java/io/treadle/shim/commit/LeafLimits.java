// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * What each leaf takes as its limit: what the queues above it and its siblings leave it. The stock scheduler computes
 * it whenever it tries to place something in the leaf, and the leaf's AM limit is a part of it. While the gate is
 * closed nobody does, and the limit would stay what it was at the switch. So it is computed here as a native pass
 * would, and set where it is another.
 */
public final class LeafLimits {
  /** How often the limits of all leaves are looked at. */
  private static final long REFRESH_MS = 1000;
  /** How many leaves get another limit before a heartbeat that waits is let in. */
  private static final int LEAVES_A_LOCK = 64;

  private final SchedulerPort port;
  private boolean refreshed;
  private long refreshedMs;

  /** Limits of one scheduler's leaves. */
  public LeafLimits(SchedulerPort port) {
    this.port = port;
  }

  /**
   * Has every leaf follow what is left for it, if the last time was a second ago or longer. Called by the link thread
   * each tick while an engine schedules. Takes the scheduler's read lock, and its write lock only if a limit changed.
   *
   * @param nowMs any clock that goes forward, milliseconds
   * @return how many leaves have got another limit
   */
  public int refresh(long nowMs) {
    if (refreshed && nowMs - refreshedMs < REFRESH_MS) {
      return 0;
    }
    return refreshNow(nowMs);
  }

  /** The same at once. Called when an engine takes over. */
  public int refreshNow(long nowMs) {
    refreshed = true;
    refreshedMs = nowMs;
    List<Change> changes = changes();
    for (int from = 0; from < changes.size(); from += LEAVES_A_LOCK) {
      set(changes.subList(from, Math.min(from + LEAVES_A_LOCK, changes.size())));
    }
    return changes.size();
  }

  private List<Change> changes() {
    Lock lock = port.readLock();
    lock.lock();
    try {
      List<Change> changes = new ArrayList<>();
      CapacityScheduler scheduler = port.scheduler();
      Resource cluster = scheduler.getClusterResource();
      if (!Resources.isNone(cluster)) {
        Resource partition = port.rmContext().getNodeLabelManager()
            .getResourceByLabel(CommonNodeLabelsManager.NO_LABEL, cluster);
        collect(scheduler.getRootQueue(), partition, changes);
      }
      return changes;
    } finally {
      lock.unlock();
    }
  }

  /** Like {@code getResourceLimitsOfChild}, which is private before Hadoop 3.4. */
  private void collect(CSQueue queue, Resource limit, List<Change> changes) {
    CapacityScheduler scheduler = port.scheduler();
    ResourceCalculator calculator = scheduler.getResourceCalculator();
    Resource cluster = scheduler.getClusterResource();
    Resource least = scheduler.getMinimumResourceCapability();
    if (LeafQueues.isLeaf(queue)) {
      Resource capped = Resources.min(calculator, cluster,
          queue.getEffectiveMaxCapacityDown(CommonNodeLabelsManager.NO_LABEL, least), limit);
      if (!capped.equals(LeafQueues.limit(queue))) {
        changes.add(new Change(queue, capped));
      }
      return;
    }
    if (queue.getChildQueues() == null) {
      return;
    }
    Resource capped = Resources.min(calculator, cluster, limit,
        queue.getEffectiveMaxCapacity(CommonNodeLabelsManager.NO_LABEL));
    // nothing of it is killable: lazy preemption, which marks containers so, is refused (FeatureRules)
    Resource left = Resources.subtract(capped, used(queue));
    for (CSQueue child : queue.getChildQueues()) {
      collect(child, Resources.roundDown(calculator, Resources.add(left, used(child)), least), changes);
    }
  }

  private static Resource used(CSQueue queue) {
    return queue.getQueueResourceUsage().getUsed(CommonNodeLabelsManager.NO_LABEL);
  }

  private void set(List<Change> changes) {
    Lock lock = port.writeLock();
    lock.lock();
    try {
      Resource cluster = port.scheduler().getClusterResource();
      for (Change change : changes) {
        LeafQueues.setLimit(change.leaf, cluster, change.limit);
      }
    } finally {
      lock.unlock();
    }
  }

  /** A leaf and the limit that it does not have yet. */
  private static final class Change {
    private final CSQueue leaf;
    private final Resource limit;

    Change(CSQueue leaf, Resource limit) {
      this.leaf = leaf;
      this.limit = limit;
    }
  }
}

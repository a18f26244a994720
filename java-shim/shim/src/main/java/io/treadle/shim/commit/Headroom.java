package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.SchedulerPort;
import java.util.Collection;
import java.util.Collections;
import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceLimits;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * The headroom that AMs are told: what they may still get. MapReduce kills its reducers when it is too low for one map,
 * and starts too many when it is too high.
 *
 * <p>The stock scheduler takes it as min(user limit - user's use, leaf's limit - leaf's use, free in the partition),
 * where the leaf's limit holds what siblings used when the leaf last placed something natively. With an engine that
 * moment lies in the past. So the leaf's limit is set to the leaf's own maximum ({@link #refreshLimits}), which does
 * not age, and what siblings use now is taken off when an AM asks: {@link #lower} takes the minimum with max - used of
 * every ancestor up to root, whose max - used is what is free in the partition.
 */
public final class Headroom {
  private static final long REFRESH_MS = 1000;

  private final SchedulerPort port;
  private final FailureLog failures = new FailureLog();
  private Resource refreshedFor;
  private long refreshedMs;

  /** Headroom of one scheduler's applications. */
  public Headroom(SchedulerPort port) {
    this.port = port;
  }

  /**
   * Frees each leaf's limit of what its siblings used. Called when an engine takes over and after a change of queues.
   * Takes the scheduler's write lock.
   */
  public synchronized void refreshLimits() {
    Lock lock = port.writeLock();
    lock.lock();
    try {
      CapacityScheduler scheduler = port.scheduler();
      Resource cluster = scheduler.getClusterResource();
      boolean legacy = scheduler.getConfiguration().getBoolean(LeafQueues.LEGACY_QUEUE_MODE, true);
      refreshLeaves(scheduler.getRootQueue(), cluster, legacy);
      refreshedFor = Resources.clone(cluster);
    } finally {
      lock.unlock();
    }
  }

  /**
   * The same if the cluster has changed since, because then the stock scheduler has computed the limits its own way. At
   * most once a second. Called by the link thread each tick while an engine schedules.
   *
   * @param nowMs any clock that goes forward, milliseconds
   */
  public synchronized void refreshIfClusterChanged(long nowMs) {
    if (nowMs - refreshedMs < REFRESH_MS && refreshedFor != null) {
      return;
    }
    if (!port.scheduler().getClusterResource().equals(refreshedFor)) {
      refreshedMs = nowMs;
      refreshLimits();
    }
  }

  private static void refreshLeaves(CSQueue queue, Resource cluster, boolean legacy) {
    if (LeafQueues.isLeaf(queue)) {
      LeafQueues.setLimitForHeadroom(queue, cluster, new ResourceLimits(cluster), legacy);
    } else if (queue.getChildQueues() != null) {
      for (CSQueue child : queue.getChildQueues()) {
        refreshLeaves(child, cluster, legacy);
      }
    }
  }

  /**
   * Lowers what an AM is about to be told to what its queues have left. Called on the AM's IPC thread; takes no lock of
   * the scheduler and never throws.
   *
   * @return the allocation given
   */
  public Allocation lower(Allocation allocation, ApplicationAttemptId attempt) {
    try {
      FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
      // an answer to an attempt that has ended is one object that all share; only a real one has a set of preemptions
      if (app != null && !app.isStopped() && app.getApplicationAttemptId().equals(attempt)
          && allocation.getContainerPreemptions() != null && allocation.getResourceLimit() != null) {
        allocation.setResourceLimit(lowered(allocation.getResourceLimit(), app));
      }
    } catch (RuntimeException e) {
      failures.log("headroom", e);
    }
    return allocation;
  }

  private Resource lowered(Resource limit, FiCaSchedulerApp app) {
    Collection<String> partitions = app.getAppSchedulingInfo().getRequestedPartitions();
    if (partitions.isEmpty()) {
      partitions = Collections.singleton(CommonNodeLabelsManager.NO_LABEL);
    }
    Resource left = Resources.createResource(0, 0);
    for (String partition : partitions) {
      Resources.addTo(left, leftOver((CSQueue) app.getQueue(), partition));
    }
    ResourceCalculator calculator = port.scheduler().getResourceCalculator();
    Resource lowered = Resources.clone(limit);
    for (int type = 0; type < lowered.getResources().length; type++) {
      // a resource that the calculator ignores may be given out without end, so no queue can run short of it
      if (isCounted(calculator, type)) {
        long value = Math.min(
            lowered.getResourceInformation(type).getValue(), left.getResourceInformation(type).getValue());
        lowered.setResourceValue(type, Math.max(0, value));
      }
    }
    return lowered;
  }

  private static Resource leftOver(CSQueue leaf, String partition) {
    Resource left = Resources.clone(Resources.unbounded());
    for (CSQueue queue = leaf; queue != null; queue = queue.getParent()) {
      left = Resources.componentwiseMin(left, Resources.subtract(
          queue.getEffectiveMaxCapacity(partition), queue.getQueueResourceUsage().getUsed(partition)));
    }
    return Resources.componentwiseMax(left, Resources.none());
  }

  private static boolean isCounted(ResourceCalculator calculator, int type) {
    Resource one = Resources.createResource(0, 0);
    one.setResourceValue(type, 1);
    return !calculator.fitsIn(one, Resources.none());
  }
}

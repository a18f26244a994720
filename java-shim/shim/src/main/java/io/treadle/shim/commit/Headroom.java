// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.SchedulerPort;
import java.util.Collection;
import java.util.Collections;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * The headroom that AMs receive: the resources that they may still get. MapReduce kills its reducers when it is too low
 * for one map, and starts too many when it is too high.
 *
 * <p>The stock scheduler takes it as min(user limit - user's use, leaf's limit - leaf's use, free in the partition),
 * where the leaf's limit is as of the leaf's last native placement. With an engine that is in the past, so it is
 * computed here when the AM asks: the minimum of user limit - user's use and of maximum - used of every queue from the
 * leaf up to root, whose maximum - used is the free amount of the partition.
 */
public final class Headroom {
  private Headroom() { }

  /**
   * Gives an AM what its user and its queues have left now. Called on the AM's IPC thread; takes no lock but that
   * of the leaf's users, as the stock answer does.
   *
   * @return the allocation given
   */
  public static Allocation correct(CapacityScheduler scheduler, Allocation allocation, ApplicationAttemptId attempt) {
    FiCaSchedulerApp app = scheduler.getApplicationAttempt(attempt);
    // an answer to an attempt that has ended is one object that all share; only a real one has a set of preemptions
    if (app != null && !app.isStopped() && app.getApplicationAttemptId().equals(attempt)
        && allocation.getContainerPreemptions() != null && allocation.getResourceLimit() != null) {
      allocation.setResourceLimit(left(scheduler, allocation.getResourceLimit(), app));
    }
    return allocation;
  }

  private static Resource left(CapacityScheduler scheduler, Resource stock, FiCaSchedulerApp app) {
    CSQueue leaf = (CSQueue) app.getQueue();
    UsersManager users = LeafQueues.users(leaf);
    UsersManager.User user = users.getUser(app.getUser());
    if (user == null) {
      return stock;
    }
    Collection<String> partitions = app.getAppSchedulingInfo().getRequestedPartitions();
    if (partitions.isEmpty()) {
      partitions = Collections.singleton(CommonNodeLabelsManager.NO_LABEL);
    }
    Resource sum = Resources.createResource(0, 0);
    for (String partition : partitions) {
      Resource limit = users.getComputedResourceLimitForActiveUsers(app.getUser(), scheduler.getClusterResource(),
          partition, SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY);
      Resources.addTo(sum, Resources.componentwiseMin(
          Resources.subtractNonNegative(limit, user.getUsed(partition)), leftOver(leaf, partition)));
    }
    ResourceCalculator calculator = scheduler.getResourceCalculator();
    Resource rounded = Resources.roundDown(calculator, sum, scheduler.getMinimumResourceCapability());
    Resource left = Resources.clone(stock);
    for (int type = 0; type < left.getResources().length; type++) {
      // a resource that the calculator ignores may be given out without end, so no queue can run short of it
      if (SchedulerPort.isCounted(calculator, type)) {
        left.setResourceValue(type, Math.max(0, rounded.getResourceInformation(type).getValue()));
      }
    }
    return left;
  }

  private static Resource leftOver(CSQueue leaf, String partition) {
    Resource left = Resources.clone(Resources.unbounded());
    for (CSQueue queue = leaf; queue != null; queue = queue.getParent()) {
      left = Resources.componentwiseMin(left, Resources.subtract(
          queue.getEffectiveMaxCapacity(partition), queue.getQueueResourceUsage().getUsed(partition)));
    }
    return Resources.componentwiseMax(left, Resources.none());
  }
}

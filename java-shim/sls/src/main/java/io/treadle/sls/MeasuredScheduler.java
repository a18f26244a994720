// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.scheduler.SchedulerMetrics;
import org.apache.hadoop.yarn.sls.scheduler.SchedulerWrapper;
import org.apache.hadoop.yarn.sls.scheduler.Tracker;

/** What a scheduler that is measured in SLS says the same whichever it is. */
interface MeasuredScheduler extends SchedulerWrapper {
  /** What measures it. */
  SlsMeasurements measurements();

  /** The queue of a name, as the CapacityScheduler finds it. */
  CSQueue getQueue(String queue);

  @Override
  default String getRealQueueName(String queue) {
    return getQueue(queue).getQueuePath();
  }

  /** Called by SLS's own schedulers only. */
  @Override
  default void propagatedHandle(SchedulerEvent event) {
    throw new UnsupportedOperationException("events go through handle");
  }

  /** Called by SLS's own schedulers only. */
  @Override
  default Allocation allocatePropagated(ApplicationAttemptId attempt, List<ResourceRequest> asks,
      List<SchedulingRequest> schedulingRequests, List<ContainerId> releases, List<String> blacklistAdditions,
      List<String> blacklistRemovals, ContainerUpdates updates) {
    throw new UnsupportedOperationException("calls of application masters go through allocate");
  }

  /** None: SLS's own metrics are switched off. */
  @Override
  default SchedulerMetrics getSchedulerMetrics() {
    return null;
  }

  @Override
  default Tracker getTracker() {
    return measurements().tracker();
  }

  @Override
  default void setSLSRunner(SLSRunner runner) {
    measurements().setRunner(runner);
  }

  @Override
  default SLSRunner getSLSRunner() {
    return measurements().runner();
  }
}

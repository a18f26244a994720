// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;

/**
 * Treadle in SLS, measured as {@link MeasuredCapacityScheduler} is. The load starts when the engine holds the lease, so
 * that no part of it is scheduled by the CapacityScheduler; of several engines when each serves its own.
 */
public class SlsTreadleScheduler extends TreadleScheduler implements MeasuredScheduler {
  private final SlsMeasurements measurements = new SlsMeasurements(this, this::engineReady);

  @Override
  public void serviceStart() throws Exception {
    super.serviceStart();
    measurements.start(getConfig());
  }

  private boolean engineReady() {
    int engines = getConfig().getInt(SlsMeasurements.ENGINES_KEY, 1);
    return ShimBean.leaseHeld() && (engines == 1 || ShimBean.serveTheirOwn() == engines);
  }

  @Override
  public void serviceStop() throws Exception {
    measurements.stop();
    super.serviceStop();
  }

  @Override
  public void handle(SchedulerEvent event) {
    measurements.handle(event, () -> super.handle(event));
  }

  @Override
  public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> asks,
      List<SchedulingRequest> schedulingRequests, List<ContainerId> releases, List<String> blacklistAdditions,
      List<String> blacklistRemovals, ContainerUpdates updates) {
    return measurements.allocate(attempt, asks, () -> super.allocate(attempt, asks, schedulingRequests, releases,
        blacklistAdditions, blacklistRemovals, updates));
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    return measurements.commit(request, () -> super.tryCommit(cluster, request, updatePending));
  }

  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    super.completedContainerInternal(container, status, event);
    measurements.completed();
  }

  @Override
  public SlsMeasurements measurements() {
    return measurements;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.Collections;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.utils.BuilderUtils;

/** One container that Treadle places: its class is how {@code tryCommit} distinguishes ours from native commits. */
public final class TreadleCommitRequest extends ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> {
  private TreadleCommitRequest(ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> container) {
    super(Collections.singletonList(container), null, null);
  }

  /**
   * Commits one container, as the stock scheduler commits its own decisions. The caller holds its write lock.
   *
   * @return the ID of the new container, or null if the RM rejected it; then nothing has changed
   */
  static ContainerId tryCommit(CapacityScheduler scheduler, Resource cluster, Placement placement) {
    FiCaSchedulerApp app = placement.app;
    FiCaSchedulerNode node = placement.node;
    // without an id: apply() gives one, so that a refusal costs none
    Container container = BuilderUtils.newContainer(null, node.getNodeID(), node.getHttpAddress(),
        placement.capability, placement.key.getPriority(), null, placement.key.getAllocationRequestId());
    RMContainer rmContainer = app.allocate(node, placement.key, container);
    if (rmContainer == null) {
      return null;
    }
    TreadleCommitRequest request = new TreadleCommitRequest(new ContainerAllocationProposal<>(
        new SchedulerContainer<>(app, node, rmContainer, node.getPartition(), true), null, null,
        placement.locality, placement.requestLocality, placement.mode, placement.capability));
    // tryCommit takes this off again, whether it accepts or not
    app.incUnconfirmedRes(placement.capability);
    try {
      return scheduler.tryCommit(cluster, request, true) ? rmContainer.getContainerId() : null;
    } catch (RuntimeException | Error e) {
      app.decUnconfirmedRes(placement.capability);
      throw e;
    }
  }
}

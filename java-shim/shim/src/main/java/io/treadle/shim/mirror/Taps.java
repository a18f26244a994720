// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.NMContainerStatus;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AppAddedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AppAttemptAddedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AppAttemptRemovedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AppRemovedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeAddedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeAttributesUpdateSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeRemovedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeResourceUpdateSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;

/**
 * Methods that the scheduler's overrides call after {@code super}: they mark possible changes in the journal. They run
 * on RM threads: nothing here blocks or takes a lock of the scheduler, and the overrides catch all exceptions. The
 * mirror reviews everything at intervals, so a tap that fails makes a frame late, not wrong.
 */
public final class Taps {
  private final Journal journal;
  private final SchedulerPort port;
  /** Applications to which the RM, before the next event, gives requests of containers back that they never saw. */
  private final Queue<ApplicationId> returning = new ConcurrentLinkedQueue<>();

  /** Taps of one scheduler. */
  public Taps(Journal journal, SchedulerPort port) {
    this.journal = journal;
    this.port = port;
  }

  /** Lets a tap mark changes, if the journal has a reader. */
  public void mark(Consumer<Taps> tap) {
    if (!journal.isPaused()) {
      tap.accept(this);
    }
  }

  /** After {@code handle}: a node, an application or an attempt came, went or changed. */
  public void handled(SchedulerEvent event) {
    markEvent(event);
    for (ApplicationId id = returning.poll(); id != null; id = returning.poll()) {
      journal.asksChanged(id, false);
    }
  }

  /** After {@code allocate}: an AM asked, or only sent its heartbeat. Lists may be null. */
  public void allocated(ApplicationAttemptId attempt, List<ResourceRequest> asks,
      List<SchedulingRequest> schedulingRequests, List<String> blacklistAdditions, List<String> blacklistRemovals) {
    boolean blacklist = holds(blacklistAdditions) || holds(blacklistRemovals);
    if (holds(asks) || holds(schedulingRequests) || blacklist) {
      journal.asksChanged(attempt.getApplicationId(), blacklist);
    }
  }

  /** After {@code allocate}: what its answer says of the AM's containers. Those that were updated changed just now. */
  public void answered(Allocation answer) {
    long nowMs = System.currentTimeMillis();
    each(answer.getIncreasedContainers(), resized -> markResized(resized, nowMs));
    each(answer.getDecreasedContainers(), resized -> markResized(resized, nowMs));
    each(answer.getPromotedContainers(), promoted -> markRunning(promoted, nowMs));
    // it holds nothing of its node any more although it may run on
    each(answer.getDemotedContainers(), demoted ->
        mark(ContainerStep.COMPLETED, demoted, nowMs, ContainerExitStatus.INVALID));
  }

  private void each(List<Container> updated, Consumer<RMContainer> mark) {
    for (Container container : updated == null ? Collections.<Container>emptyList() : updated) {
      RMContainer found = port.scheduler().getRMContainer(container.getId());
      if (found != null) {
        mark.accept(found);
      }
    }
  }

  private void markResized(RMContainer container, long nowMs) {
    if (ContainerStep.isReported(container)) {
      mark(ContainerStep.RESIZED, container, nowMs, 0);
    }
  }

  /** A container that the engine has not heard of although it may run. */
  private void markRunning(RMContainer container, long startedMs) {
    mark(ContainerStep.ALLOCATED, container, container.getCreationTime(), 0);
    mark(ContainerStep.LAUNCHED, container, startedMs, 0);
  }

  private void mark(int kind, RMContainer container, long timeMs, int exitStatus) {
    journal.container(new ContainerStep(kind, container, timeMs, exitStatus, false, container.isAMContainer()));
  }

  /** After {@code moveApplication} or {@code updateApplicationPriority}, which cause no event. */
  public void applicationChanged(ApplicationId application) {
    journal.applicationChanged(application);
  }

  /** After {@code nodeUpdate}: a NodeManager's heartbeat. Most change nothing that the other taps do not see. */
  public void nodeUpdated(RMNode node) {
    if (node.getState() != NodeState.RUNNING) {
      journal.nodeChanged(node.getNodeID());
    }
  }

  /** After {@code containerLaunchedOnNode}. */
  public void containerLaunched(ContainerId container, SchedulerNode node) {
    RMContainer launched = port.scheduler().getRMContainer(container);
    if (launched != null && ContainerStep.isReported(launched)) {
      mark(ContainerStep.LAUNCHED, launched, System.currentTimeMillis(), 0);
    }
  }

  /** After {@code completedContainerInternal}: a container ended, or a reservation was taken back. */
  public void containerCompleted(RMContainer container, ContainerStatus status) {
    if (container.getContainerRequest() != null) {
      returning.add(container.getApplicationAttemptId().getApplicationId());
    }
    if (container.completed() && ContainerStep.isReported(container)) {
      mark(ContainerStep.COMPLETED, container, System.currentTimeMillis(), status.getExitStatus());
    } else {
      journal.nodeChanged(container.getNodeId());
      journal.applicationChanged(container.getApplicationAttemptId().getApplicationId());
    }
  }

  /**
   * Whether a request is for the container of an ApplicationMaster. Valid only before {@code tryCommit}: from the
   * commit on, another thread gives the attempt its master.
   */
  public static boolean isForMaster(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    return request.anythingAllocatedOrReserved() && request.getFirstAllocatedOrReservedContainer()
        .getAllocatedOrReservedContainer().getSchedulerApplicationAttempt().isWaitingForAMContainer();
  }

  /**
   * After a {@code tryCommit} that succeeded.
   *
   * @param request the committed request; the RM takes only the first container of a request
   * @param byTreadle whether the committer did it, not the stock scheduler
   * @param am the result of {@link #isForMaster} before the commit
   */
  public void committed(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request, boolean byTreadle,
      boolean am) {
    if (request.anythingAllocatedOrReserved()) {
      markAllocation(request.getFirstAllocatedOrReservedContainer(), byTreadle, am);
    }
    for (SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> released : request.getContainersToRelease()) {
      markBoth(released);
    }
  }

  private void markAllocation(ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> proposal,
      boolean byTreadle, boolean am) {
    SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed = proposal.getAllocatedOrReservedContainer();
    RMContainer container = placed.getRmContainer();
    boolean update = placed.getSchedulerRequestKey().getContainerToUpdate() != null;
    if (placed.isAllocated() && !update && container.getContainerId() != null) {
      journal.container(new ContainerStep(ContainerStep.ALLOCATED, container, container.getCreationTime(), 0, byTreadle,
          am));
    } else {
      markBoth(placed);
    }
    if (proposal.getToRelease() != null) {
      proposal.getToRelease().forEach(this::markBoth);
    }
  }

  private void markBoth(SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> container) {
    journal.nodeChanged(container.getSchedulerNode().getNodeID());
    journal.applicationChanged(container.getSchedulerApplicationAttempt().getApplicationId());
  }

  private void markEvent(SchedulerEvent event) {
    switch (event.getType()) {
      case NODE_ADDED:
        markAdded((NodeAddedSchedulerEvent) event);
        break;
      case NODE_REMOVED:
        markNode(((NodeRemovedSchedulerEvent) event).getRemovedRMNode());
        break;
      case NODE_RESOURCE_UPDATE:
        markNode(((NodeResourceUpdateSchedulerEvent) event).getRMNode());
        break;
      case NODE_LABELS_UPDATE:
        journal.mark(changes -> changes.allNodes = true);
        journal.queuesChanged();
        break;
      case NODE_ATTRIBUTES_UPDATE:
        journal.mark(changes -> changes.attributes.addAll(
            ((NodeAttributesUpdateSchedulerEvent) event).getUpdatedNodeToAttributes().keySet()));
        break;
      case APP_ADDED:
        markApplication(((AppAddedSchedulerEvent) event).getApplicationId());
        break;
      case APP_REMOVED:
        markApplication(((AppRemovedSchedulerEvent) event).getApplicationID());
        break;
      case APP_ATTEMPT_ADDED:
        markApplication(((AppAttemptAddedSchedulerEvent) event).getApplicationAttemptId().getApplicationId());
        break;
      case APP_ATTEMPT_REMOVED:
        markApplication(((AppAttemptRemovedSchedulerEvent) event).getApplicationAttemptID().getApplicationId());
        break;
      case MANAGE_QUEUE:
        journal.queuesChanged();
        break;
      default:
        // heartbeats and the ends of containers have taps of their own; Hadoop 3.3 has no such constant
        if (event.getType().name().equals("AUTO_QUEUE_DELETION")) {
          journal.queuesChanged();
        }
    }
  }

  private void markApplication(ApplicationId application) {
    journal.applicationChanged(application);
    journal.queuesChanged();
  }

  private void markNode(RMNode node) {
    journal.nodeChanged(node.getNodeID());
    journal.queuesChanged();
  }

  private void markAdded(NodeAddedSchedulerEvent event) {
    markNode(event.getAddedRMNode());
    List<NMContainerStatus> reports = event.getContainerReports();
    for (NMContainerStatus report : reports == null ? Collections.<NMContainerStatus>emptyList() : reports) {
      RMContainer recovered = port.scheduler().getRMContainer(report.getContainerId());
      if (recovered != null && ContainerStep.isReported(recovered)) {
        markRunning(recovered, recovered.getCreationTime());
      }
    }
  }

  private static boolean holds(List<?> list) {
    return list != null && !list.isEmpty();
  }
}

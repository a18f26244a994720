// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.Lock;
import java.util.function.Consumer;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.SettableFuture;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;

/** The stock scheduler with nothing but taps. */
public final class TappedScheduler extends CapacityScheduler implements SchedulerPort {
  static final int JOURNAL_CAPACITY = 1 << 16;
  final Journal journal = new Journal(JOURNAL_CAPACITY, () -> { });
  final Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
  /** Whether the ends of containers pass unheard, as if their tap had failed. */
  volatile boolean deafToEnds;
  /** Whether placements pass unheard. */
  volatile boolean deafToBegins;
  /** What another thread does between a commit and its tap. */
  volatile Runnable afterCommit = () -> { };
  private final Taps taps = new Taps(journal, this);

  @Override
  public void handle(SchedulerEvent event) {
    super.handle(event);
    tap(taps -> taps.handled(event));
  }

  @Override
  public String moveApplication(ApplicationId application, String queue) throws YarnException {
    String moved = super.moveApplication(application, queue);
    tap(taps -> taps.applicationChanged(application));
    return moved;
  }

  @Override
  public Priority updateApplicationPriority(Priority priority, ApplicationId application, SettableFuture<Object> future,
      UserGroupInformation user) throws YarnException {
    Priority updated = super.updateApplicationPriority(priority, application, future, user);
    tap(taps -> taps.applicationChanged(application));
    return updated;
  }

  @Override
  protected void nodeUpdate(RMNode node) {
    super.nodeUpdate(node);
    tap(taps -> taps.nodeUpdated(node));
  }

  @Override
  public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> ask,
      List<SchedulingRequest> schedulingRequests, List<ContainerId> release, List<String> blacklistAdditions,
      List<String> blacklistRemovals, ContainerUpdates updates) {
    Allocation allocation =
        super.allocate(attempt, ask, schedulingRequests, release, blacklistAdditions, blacklistRemovals, updates);
    tap(taps -> taps.allocated(attempt, ask, schedulingRequests, blacklistAdditions, blacklistRemovals));
    tap(taps -> taps.answered(allocation));
    return allocation;
  }

  @Override
  protected void containerLaunchedOnNode(ContainerId container, SchedulerNode node) {
    super.containerLaunchedOnNode(container, node);
    tap(taps -> taps.containerLaunched(container, node));
  }

  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status,
      RMContainerEventType event) {
    super.completedContainerInternal(container, status, event);
    if (!deafToEnds) {
      tap(taps -> taps.containerCompleted(container, status));
    }
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    boolean am = Taps.isForMaster(request);
    boolean committed = super.tryCommit(cluster, request, updatePending);
    if (committed && !deafToBegins) {
      afterCommit.run();
      tap(taps -> taps.committed(request, true, am));
    }
    return committed;
  }

  private void tap(Consumer<Taps> tap) {
    try {
      taps.mark(tap);
    } catch (Throwable e) {
      failures.add(e);
    }
  }

  @Override
  public CapacityScheduler scheduler() {
    return this;
  }

  @Override
  public Lock readLock() {
    return readLock;
  }

  @Override
  public Lock writeLock() {
    return writeLock;
  }
}

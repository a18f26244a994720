// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.Escapes;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.Shim;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.commit.Unjudgeable;
import io.treadle.shim.mirror.Taps;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
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
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;

/**
 * The CapacityScheduler with its decisions made elsewhere: set it as {@code yarn.resourcemanager.scheduler.class}. It
 * behaves as a CapacityScheduler; while an engine holds the lease in mode {@code enforce}, the {@link Shim} places
 * containers instead of {@link #allocateContainersToNode(CandidateNodeSet, boolean)}.
 *
 * <p>It is in Hadoop's package because that method, through which every native allocation goes, is package-private. It
 * holds overrides and no logic. Each calls {@code super} outside of {@link #tap} and {@link #ask}, so that exceptions
 * of stock code are thrown as usual, and catches those of Treadle: a Throwable on the scheduler's dispatcher thread
 * ends the ResourceManager.
 *
 * <p>Many instances live in one JVM (each failover makes one), some of which are never started: the constructor starts
 * nothing, and until {@link #serviceInit} has made a shim, this is the stock scheduler. Neither the class nor a method
 * is final: SLS and tests make subclasses.
 */
public class TreadleScheduler extends CapacityScheduler implements SchedulerPort {
  private final Escapes escapes = new Escapes();
  private final AtomicInteger heartbeats = new AtomicInteger();
  private volatile Shim shim;

  @Override
  public void serviceInit(Configuration conf) throws Exception {
    super.serviceInit(conf);
    try {
      shim = new Shim(this, conf, escapes);
    } catch (Throwable t) {
      escapes.caught("serviceInit", t);
    }
  }

  @Override
  public void serviceStart() throws Exception {
    super.serviceStart();
    tap("serviceStart", Shim::start);
  }

  @Override
  public void serviceStop() throws Exception {
    tap("serviceStop", Shim::stop);
    super.serviceStop();
  }

  /**
   * As the stock one, and takes over mode, lease and tick. In a started scheduler this is an administrator's
   * {@code -refreshQueues}, and a bad value is refused before anything has changed; in any other state it is a
   * transition to active, where throwing would cost the cluster its RM, so that the last good values stay.
   */
  @Override
  public void reinitialize(Configuration conf, RMContext context) throws IOException {
    AtomicReference<IllegalArgumentException> refused = new AtomicReference<>();
    ShimConfig checked = ask("reinitialize", null, current -> {
      try {
        return current.check(conf);
      } catch (IllegalArgumentException e) {
        refused.set(e);
        return null;
      }
    });
    if (refused.get() != null && isInState(STATE.STARTED)) {
      throw new IOException(refused.get().getMessage(), refused.get());
    }
    super.reinitialize(conf, context);
    tap("reinitialize", current -> current.refreshed(conf, checked, refused.get()));
  }

  /** The gate: answers null, which stock code takes for "nothing to do", while the engine schedules. */
  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    boolean closed = ask("gate", false, current -> current.closesGate(withNodeHeartbeat));
    return closed ? null : super.allocateContainersToNode(candidates, withNodeHeartbeat);
  }

  @Override
  public void handle(SchedulerEvent event) {
    super.handle(event);
    mark("handle", taps -> taps.handled(event));
  }

  @Override
  public String moveApplication(ApplicationId application, String queue) throws YarnException {
    String moved = super.moveApplication(application, queue);
    changed(application);
    return moved;
  }

  @Override
  public Priority updateApplicationPriority(Priority priority, ApplicationId application, SettableFuture<Object> future,
      UserGroupInformation user) throws YarnException {
    Priority updated = super.updateApplicationPriority(priority, application, future, user);
    changed(application);
    return updated;
  }

  private void changed(ApplicationId application) {
    mark("change of an application", taps -> taps.applicationChanged(application));
  }

  @Override
  protected void nodeUpdate(RMNode node) {
    heartbeats.incrementAndGet();
    try {
      super.nodeUpdate(node);
    } finally {
      heartbeats.decrementAndGet();
    }
    mark("nodeUpdate", taps -> taps.nodeUpdated(node));
  }

  @Override
  public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> ask,
      List<SchedulingRequest> schedulingRequests, List<ContainerId> release, List<String> blacklistAdditions,
      List<String> blacklistRemovals, ContainerUpdates updateRequests) {
    List<SchedulingRequest> judged =
        ask("judgeable", schedulingRequests, current -> current.judgeable(attempt, schedulingRequests));
    // what keeps the asks as they are while a transaction of this AM's containers is committed
    Lock nobodys = new ReentrantLock();
    Lock asks = ask("asks", nobodys, current -> attempt == null ? nobodys : current.asks(attempt));
    Allocation allocation;
    asks.lock();
    try {
      allocation = super.allocate(attempt, ask, judged, release, blacklistAdditions, blacklistRemovals, updateRequests);
    } finally {
      asks.unlock();
    }
    mark("allocate", taps -> {
      taps.allocated(attempt, ask, schedulingRequests, blacklistAdditions, blacklistRemovals);
      taps.answered(allocation);
    });
    tap("allocate", current -> current.updatesAsked(attempt, updateRequests));
    Allocation answer =
        ask("allocate", allocation, current -> Unjudgeable.rejecting(allocation, schedulingRequests, judged));
    return ask("headroom", answer, current -> current.correctHeadroom(answer, attempt));
  }

  @Override
  protected void containerLaunchedOnNode(ContainerId container, SchedulerNode node) {
    super.containerLaunchedOnNode(container, node);
    mark("containerLaunchedOnNode", taps -> taps.containerLaunched(container, node));
  }

  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    super.completedContainerInternal(container, status, event);
    mark("completedContainerInternal", taps -> taps.containerCompleted(container, status));
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> asked = request;
    boolean am = ask("tryCommit", false, current -> Taps.isForMaster(asked));
    boolean committed = super.tryCommit(cluster, request, updatePending);
    if (committed) {
      tap("tryCommit", current -> current.committed(asked, am));
    }
    return committed;
  }

  /** Has a tap of the shim, if there is one, note what stock code has changed. */
  private void mark(String where, Consumer<Taps> action) {
    tap(where, current -> current.taps().mark(action));
  }

  /** Tells the shim, if there is one, what stock code has done. */
  private void tap(String where, Consumer<Shim> action) {
    ask(where, null, current -> {
      action.accept(current);
      return null;
    });
  }

  /** The shim's answer; {@code otherwise} if there is none, or if it fails. */
  private <T> T ask(String where, T otherwise, Function<Shim, T> question) {
    try {
      Shim current = shim;
      return current == null ? otherwise : question.apply(current);
    } catch (Throwable t) {
      escapes.caught(where, t);
      return otherwise;
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

  @Override
  public boolean heartbeatWaits() {
    return heartbeats.get() > 0;
  }

  /** The shim of this instance, null before {@link #serviceInit}; for tests and for subclasses. */
  protected Shim shim() {
    return shim;
  }
}

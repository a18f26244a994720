package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.Escapes;
import io.treadle.shim.NoLock;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.Shim;
import io.treadle.shim.config.BadSettingException;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.constraints.Unjudgeable;
import io.treadle.shim.journal.Taps;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
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
 * The CapacityScheduler with its decisions made elsewhere: set it as {@code yarn.resourcemanager.scheduler.class}.
 * Everything that a CapacityScheduler does it does; while an engine holds the lease in mode {@code enforce}, the
 * {@link Shim} places containers instead of {@link #allocateContainersToNode(CandidateNodeSet, boolean)}.
 *
 * <p>It is in Hadoop's package because that method, through which every native allocation goes, is package-private. It
 * holds overrides and no logic. Each calls {@code super} outside of its own try block, so that what stock code throws
 * is thrown as ever, and lets nothing of ours escape: a Throwable on the scheduler's dispatcher thread ends the
 * ResourceManager.
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
    try {
      Shim current = shim;
      if (current != null) {
        current.start();
      }
    } catch (Throwable t) {
      escapes.caught("serviceStart", t);
    }
  }

  @Override
  public void serviceStop() throws Exception {
    try {
      Shim current = shim;
      if (current != null) {
        current.stop();
      }
    } catch (Throwable t) {
      escapes.caught("serviceStop", t);
    }
    super.serviceStop();
  }

  /**
   * As the stock one, and takes over mode, lease and tick. In a started scheduler this is an administrator's
   * {@code -refreshQueues}, and a bad value is refused before anything has changed; in any other state it is a
   * transition to active, where throwing would cost the cluster its RM, so that the last good values stay.
   */
  @Override
  public void reinitialize(Configuration conf, RMContext context) throws IOException {
    ShimConfig checked = null;
    BadSettingException refused = null;
    Shim current = shim;
    try {
      if (current != null) {
        checked = current.check(conf);
      }
    } catch (BadSettingException e) {
      refused = e;
    } catch (Throwable t) {
      escapes.caught("reinitialize", t);
    }
    if (refused != null && isInState(STATE.STARTED)) {
      throw new IOException(refused.getMessage(), refused);
    }
    super.reinitialize(conf, context);
    try {
      if (current != null) {
        current.refreshed(conf, checked, refused);
      }
    } catch (Throwable t) {
      escapes.caught("reinitialize", t);
    }
  }

  /** The gate: answers null, which stock code takes for "nothing to do", while the engine schedules. */
  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    boolean closed = false;
    try {
      Shim current = shim;
      closed = current != null && current.closesGate(candidates, withNodeHeartbeat);
    } catch (Throwable t) {
      escapes.caught("gate", t);
    }
    return closed ? null : super.allocateContainersToNode(candidates, withNodeHeartbeat);
  }

  @Override
  public void handle(SchedulerEvent event) {
    super.handle(event);
    try {
      Shim current = shim;
      if (current != null) {
        current.handled(event);
      }
    } catch (Throwable t) {
      escapes.caught("handle", t);
    }
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
    try {
      Shim current = shim;
      if (current != null) {
        current.taps().applicationChanged(application);
      }
    } catch (Throwable t) {
      escapes.caught("change of an application", t);
    }
  }

  @Override
  protected void nodeUpdate(RMNode node) {
    heartbeats.incrementAndGet();
    try {
      super.nodeUpdate(node);
    } finally {
      heartbeats.decrementAndGet();
    }
    try {
      Shim current = shim;
      if (current != null) {
        current.taps().nodeUpdated(node);
      }
    } catch (Throwable t) {
      escapes.caught("nodeUpdate", t);
    }
  }

  @Override
  public Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> ask,
      List<SchedulingRequest> schedulingRequests, List<ContainerId> release, List<String> blacklistAdditions,
      List<String> blacklistRemovals, ContainerUpdates updateRequests) {
    List<SchedulingRequest> judged = judgeable(attempt, schedulingRequests);
    Lock asks = asks(attempt);
    Allocation allocation;
    asks.lock();
    try {
      allocation = super.allocate(attempt, ask, judged, release, blacklistAdditions, blacklistRemovals, updateRequests);
    } finally {
      asks.unlock();
    }
    try {
      Shim current = shim;
      if (current != null) {
        current.taps().allocated(attempt, ask, schedulingRequests, blacklistAdditions, blacklistRemovals);
        current.taps().answered(allocation);
        current.updatesAsked(attempt, updateRequests);
        current.asked(attempt);
        return current.correctHeadroom(Unjudgeable.rejecting(allocation, schedulingRequests, judged), attempt);
      }
    } catch (Throwable t) {
      escapes.caught("allocate", t);
    }
    return allocation;
  }

  private List<SchedulingRequest> judgeable(ApplicationAttemptId attempt, List<SchedulingRequest> asked) {
    try {
      Shim current = shim;
      return current == null ? asked : current.judgeable(attempt, asked);
    } catch (Throwable t) {
      escapes.caught("judgeable", t);
      return asked;
    }
  }

  /** What keeps an AM's asks as they are while a transaction of its containers is committed. */
  private Lock asks(ApplicationAttemptId attempt) {
    try {
      Shim current = shim;
      return current == null || attempt == null ? NoLock.INSTANCE : current.asks(attempt);
    } catch (Throwable t) {
      escapes.caught("asks", t);
      return NoLock.INSTANCE;
    }
  }

  @Override
  protected void containerLaunchedOnNode(ContainerId container, SchedulerNode node) {
    super.containerLaunchedOnNode(container, node);
    try {
      Shim current = shim;
      if (current != null) {
        current.taps().containerLaunched(container, node);
      }
    } catch (Throwable t) {
      escapes.caught("containerLaunchedOnNode", t);
    }
  }

  @Override
  protected void completedContainerInternal(RMContainer container, ContainerStatus status, RMContainerEventType event) {
    super.completedContainerInternal(container, status, event);
    try {
      Shim current = shim;
      if (current != null) {
        current.completed(container, status);
      }
    } catch (Throwable t) {
      escapes.caught("completedContainerInternal", t);
    }
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    boolean am = isForMaster(request);
    boolean committed = super.tryCommit(cluster, request, updatePending);
    try {
      Shim current = shim;
      if (committed && current != null) {
        current.committed(request, am);
      }
    } catch (Throwable t) {
      escapes.caught("tryCommit", t);
    }
    return committed;
  }

  private boolean isForMaster(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    try {
      return shim != null && Taps.isForMaster(request);
    } catch (Throwable t) {
      escapes.caught("tryCommit", t);
      return false;
    }
  }

  @Override
  public CapacityScheduler scheduler() {
    return this;
  }

  @Override
  public RMContext rmContext() {
    return rmContext;
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

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.Cap;
import io.treadle.shim.EngineView;
import io.treadle.shim.Log;
import io.treadle.shim.NodeCondition;
import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Increases and promotions of containers. To the RM they are asks with a key that names the container; the only node
 * that can serve one is the container's own, so there is nothing for an engine to decide and the shim commits them by
 * itself. Decreases and demotions need no allocation and never come here.
 */
public final class ContainerUpdates {
  private static final Log LOG = new Log(ContainerUpdates.class);
  private static final int MOST_MARKS = 10_000;
  private static final int UPDATES_A_TICK = 64;
  /** How long an update that could not be committed is left alone. */
  private static final long AGAIN_MS = 1000;
  /** The same of one whose node is full. */
  private static final long FULL_AGAIN_MS = 50;

  private final SchedulerPort port;
  private final CommitSettings settings;
  /** Who has updates that wait, and from when on they are looked at. */
  private final Map<ApplicationAttemptId, Long> marked = new LinkedHashMap<>();
  private final EngineView view;
  private final IncreaseHolds holds;

  /** Updates of one scheduler's containers. */
  public ContainerUpdates(SchedulerPort port, CommitSettings settings, EngineView view) {
    this.port = port;
    this.settings = settings;
    this.view = view;
    this.holds = new IncreaseHolds(port, view, this::checks);
  }

  /**
   * Notes that an AM asked for an increase or a promotion. Called after the scheduler's {@code allocate}, on any
   * thread, in every mode. Bounded: of too many applications the one noted longest ago is found again by {@link
   * #markAll}.
   */
  public void mark(ApplicationAttemptId attempt) {
    mark(attempt, settings.nowMs());
  }

  private void mark(ApplicationAttemptId attempt, long fromMs) {
    synchronized (marked) {
      if (marked.size() >= MOST_MARKS && !marked.containsKey(attempt)) {
        marked.remove(marked.keySet().iterator().next());
      }
      // an AM that has asked again meanwhile does not wait
      marked.merge(attempt, fromMs, Math::min);
    }
  }

  /** Looks through all applications for updates that wait. Called when an engine takes over. */
  public void markAll() {
    Map<?, SchedulerApplication<FiCaSchedulerApp>> all = port.scheduler().getSchedulerApplications();
    for (SchedulerApplication<FiCaSchedulerApp> application : all.values()) {
      FiCaSchedulerApp attempt = application.getCurrentAppAttempt();
      if (attempt != null && !waiting(attempt).isEmpty()) {
        mark(attempt.getApplicationAttemptId());
      }
    }
  }

  /**
   * Commits waiting updates that fit, before an answer's proposals. Checks a bounded number of applications, the least
   * recently checked first. Takes the scheduler's write lock only for updates whose node has room and, after a failed
   * commit of an application, a second later: causes such as a queue's maximum are found only with the lock held.
   *
   * @param mayCommit asked with the lock held; nothing is committed once it is false
   * @return how many were committed
   */
  public int place(BooleanSupplier mayCommit) {
    int placed = 0;
    int budget = UPDATES_A_TICK;
    long nowMs = settings.nowMs();
    holds.expire(nowMs);
    for (ApplicationAttemptId attempt : next(budget, nowMs)) {
      FiCaSchedulerApp app = current(attempt);
      if (app == null) {
        continue;
      }
      List<SchedulerRequestKey> keys = waiting(app);
      List<SchedulerRequestKey> full = new ArrayList<>(keys);
      full.removeIf(key -> !isNodeFull(app, key));
      keys.removeAll(full);
      holds.keepOnly(app, full);
      if (keys.isEmpty() && full.isEmpty()) {
        continue;
      }
      hold(app, full, nowMs);
      long againMs = full.isEmpty() ? nowMs : nowMs + FULL_AGAIN_MS;
      if (budget > 0 && !keys.isEmpty()) {
        keys = keys.subList(0, Math.min(budget, keys.size()));
        budget -= keys.size();
        int committed = placeLocked(app, keys, mayCommit);
        againMs += committed < keys.size() ? AGAIN_MS : 0;
        placed += committed;
      }
      mark(attempt, againMs);
    }
    return placed;
  }

  private List<ApplicationAttemptId> next(int most, long nowMs) {
    synchronized (marked) {
      List<ApplicationAttemptId> taken = new ArrayList<>();
      for (Iterator<Map.Entry<ApplicationAttemptId, Long>> all = marked.entrySet().iterator();
          all.hasNext() && taken.size() < most; ) {
        Map.Entry<ApplicationAttemptId, Long> entry = all.next();
        if (entry.getValue() <= nowMs) {
          taken.add(entry.getKey());
          all.remove();
        }
      }
      return taken;
    }
  }

  private FiCaSchedulerApp current(ApplicationAttemptId attempt) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
    return app == null || app.isStopped() || !app.getApplicationAttemptId().equals(attempt) ? null : app;
  }

  /** The updates among as many request keys of an application as the engine receives: the others wait. */
  private List<SchedulerRequestKey> waiting(FiCaSchedulerApp app) {
    List<SchedulerRequestKey> keys = new ArrayList<>();
    int left = Cap.REQUEST_KEYS.ofApplication;
    for (SchedulerRequestKey key : app.getSchedulerKeys()) {
      if (left-- == 0) {
        break;
      }
      if (key.getContainerToUpdate() != null) {
        keys.add(key);
      }
    }
    return keys;
  }

  /**
   * Whether an update's node has no room now. That may last, and is found out without the scheduler's lock.
   */
  private boolean isNodeFull(FiCaSchedulerApp app, SchedulerRequestKey key) {
    CapacityScheduler scheduler = port.scheduler();
    RMContainer container = scheduler.getRMContainer(key.getContainerToUpdate());
    FiCaSchedulerNode node = container == null ? null : scheduler.getNode(container.getContainer().getNodeId());
    return node != null && !Resources.fitsIn(scheduler.getResourceCalculator(),
        app.getPendingAsk(key, ResourceRequest.ANY).getPerAllocationResource(), node.getUnallocatedResource());
  }

  /** Holds the nodes of updates that wait for room, so that no container takes it. */
  private void hold(FiCaSchedulerApp app, List<SchedulerRequestKey> keys, long nowMs) {
    CapacityScheduler scheduler = port.scheduler();
    int left = UPDATES_A_TICK;
    for (SchedulerRequestKey key : keys) {
      RMContainer container = scheduler.getRMContainer(key.getContainerToUpdate());
      Resource amount = app.getPendingAsk(key, ResourceRequest.ANY).getPerAllocationResource();
      if (left-- > 0 && container != null && holds.isDue(app, key, container.getNodeId(), amount, nowMs)) {
        Lock lock = port.readLock();
        lock.lock();
        try {
          Placement placement = prepare(app, key, container);
          if (placement != null) {
            holds.hold(placement, container, nowMs);
          }
        } finally {
          lock.unlock();
        }
      }
    }
  }

  /** Releases the amounts held for updates: the engine does not schedule. */
  public void release() {
    holds.clear();
  }

  private int placeLocked(FiCaSchedulerApp app, List<SchedulerRequestKey> keys, BooleanSupplier mayCommit) {
    int placed = 0;
    Lock lock = port.writeLock();
    lock.lock();
    try {
      for (SchedulerRequestKey key : keys) {
        if (mayCommit.getAsBoolean() && placeOne(app, key)) {
          placed++;
        }
      }
    } finally {
      lock.unlock();
    }
    return placed;
  }

  private boolean placeOne(FiCaSchedulerApp app, SchedulerRequestKey key) {
    try {
      CapacityScheduler scheduler = port.scheduler();
      RMContainer container = scheduler.getRMContainer(key.getContainerToUpdate());
      if (container == null) {
        withdraw(app, key);
        return false;
      }
      Placement placement = prepare(app, key, container);
      return placement != null
          && TreadleCommitRequest.tryCommit(scheduler, scheduler.getClusterResource(), placement) != null;
    } catch (Throwable e) {
      LOG.failure("a container update", e);
      return false;
    }
  }

  private Checks checks() {
    return new Checks(port.scheduler(), settings, view, null);
  }

  /** What would serve an update; null if it has to wait. */
  private Placement prepare(FiCaSchedulerApp app, SchedulerRequestKey key, RMContainer container) {
    Checks checks = checks();
    Placement placement = new Placement();
    placement.app = app;
    placement.leaf = (CSQueue) app.getQueue();
    placement.key = key;
    placement.asks = app.getAppPlacementAllocator(key);
    placement.node = port.scheduler().getNode(container.getContainer().getNodeId());
    if (placement.asks == null || placement.node == null || app.isStopped()
        || !checks.isActive(app, placement.leaf)
        || NodeCondition.reasonAgainst(placement.node, settings.nowMs(), settings.nodeStaleMs) != null
        || checks.checkPartition(placement) != null) {
      return null;
    }
    PendingAsk ask = placement.asks.getPendingAsk(ResourceRequest.ANY);
    placement.capability = ask.getPerAllocationResource();
    // the ask names the container's host without a port, which is not the node's name where names include the port
    placement.locality = placement.asks.getOutstandingAsksCount(placement.node.getNodeName()) > 0
        ? NodeType.NODE_LOCAL : NodeType.RACK_LOCAL;
    placement.requestLocality = NodeType.NODE_LOCAL;
    return ask.getCount() > 0 ? placement : null;
  }

  /**
   * Takes an update back whose container has ended; the stock scheduler would place a container and kill it at once.
   */
  private static void withdraw(FiCaSchedulerApp app, SchedulerRequestKey key) {
    PendingAsk ask = app.getPendingAsk(key, ResourceRequest.ANY);
    if (ask.getCount() <= 0) {
      return;
    }
    ResourceRequest none = ResourceRequest.newBuilder().priority(key.getPriority())
        .allocationRequestId(key.getAllocationRequestId()).resourceName(ResourceRequest.ANY)
        .capability(ask.getPerAllocationResource()).numContainers(0)
        .nodeLabelExpression(app.getAppPlacementAllocator(key).getPrimaryRequestedNodePartition()).build();
    app.getAppSchedulingInfo().updateResourceRequests(
        Collections.singletonMap(key, Collections.singletonMap(ResourceRequest.ANY, none)), false);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.Cap;
import io.treadle.shim.Log;
import io.treadle.shim.NodeCondition;
import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.hadoop.thirdparty.com.google.common.collect.Iterators;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
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
 * itself. While they wait for room it is held, where the stock scheduler would reserve it: one at a time on a node, and
 * all of them together within the limits of users and queues. Decreases and demotions need no allocation and never come
 * here. Used by the link thread only, except {@link #mark}.
 */
public final class ContainerUpdates {
  private static final Log LOG = new Log(ContainerUpdates.class);
  private static final int MOST_MARKS = 10_000;
  /** The most applications that are looked at in a tick, and the most commits. */
  private static final int UPDATES_A_TICK = 64;
  /** Steps of a tick, for the applications of a user and for all. */
  private static final int STEPS_OF_USER = 4000;
  private static final int STEPS = 4 * STEPS_OF_USER;
  /** Steps of an update that is looked at; any other request key is one. */
  private static final int UPDATE = 16;
  /** Steps of a look with a lock of the scheduler, to commit an update or to hold its room. */
  private static final int LOCKED = 200;
  /** How long an update that could not be committed is left alone. */
  private static final long AGAIN_MS = 1000;
  /** The same of one whose node is full. */
  private static final long FULL_AGAIN_MS = 50;
  /** How often the limits of what is held are looked at again. */
  private static final long LIMITS_EVERY_MS = 1000;

  private final SchedulerPort port;
  private final CommitSettings settings;
  /** Who has updates that wait. */
  private final Map<ApplicationAttemptId, Round> marked = new LinkedHashMap<>();
  private final Map<NodeId, Hold> holds = new HashMap<>();
  /** The amounts of {@link #holds}, and what they take of nodes, users and queues. */
  private final Map<NodeId, Resource> held;
  private final Assumptions taken = new Assumptions();
  private final Consumer<NodeId> changed;
  /** Steps that are left in this tick; by user. */
  private int stepsLeft;
  private final Map<String, Integer> stepsOfUser = new HashMap<>();

  /**
   * Updates of one scheduler's containers.
   *
   * @param held gets the amounts held on nodes, where the engine and commits see so much less room; the link thread's
   * @param changed called with each node on which more or less is held than before
   */
  public ContainerUpdates(SchedulerPort port, CommitSettings settings, Map<NodeId, Resource> held,
      Consumer<NodeId> changed) {
    this.port = port;
    this.settings = settings;
    this.held = held;
    this.changed = changed;
  }

  /** The amount held on one node. */
  private static final class Hold {
    private final Placement placement;
    private final long limitsMs;

    Hold(Placement placement, long nowMs) {
      this.placement = placement;
      this.limitsMs = nowMs;
    }

    boolean isFor(FiCaSchedulerApp app, SchedulerRequestKey key) {
      return placement.app == app && placement.key.equals(key);
    }

    /** Whether it is time to look at the limits again, or another amount is asked for. */
    boolean isDue(Resource amount, long nowMs) {
      return nowMs - limitsMs >= LIMITS_EVERY_MS || !placement.capability.equals(amount);
    }

    /** Whether the application has ended, or its update was served or taken back. */
    boolean isOver() {
      return placement.app.isStopped()
          || placement.app.getPendingAsk(placement.key, ResourceRequest.ANY).getCount() <= 0;
    }
  }

  /**
   * Notes that an AM asked for an increase or a promotion. Called after the scheduler's {@code allocate}, on any
   * thread, in every mode. Bounded: beyond that an application is noted when it asks again, or by {@link #markAll}.
   */
  public void mark(ApplicationAttemptId attempt) {
    synchronized (marked) {
      if (marked.size() < MOST_MARKS || marked.containsKey(attempt)) {
        marked.merge(attempt, new Round(settings.nowMs()), Round::askedAgain);
      }
    }
  }

  private void goOnLater(ApplicationAttemptId attempt, Round round) {
    synchronized (marked) {
      marked.merge(attempt, round, (asked, begun) -> begun.askedAgain(asked));
    }
  }

  /** Looks through all applications for updates that wait. Called when an engine takes over. */
  public void markAll() {
    Map<?, SchedulerApplication<FiCaSchedulerApp>> all = port.scheduler().getSchedulerApplications();
    for (SchedulerApplication<FiCaSchedulerApp> application : all.values()) {
      FiCaSchedulerApp attempt = application.getCurrentAppAttempt();
      if (attempt != null && attempt.getSchedulerKeys().stream().limit(Cap.REQUEST_KEYS.ofApplication)
          .anyMatch(key -> key.getContainerToUpdate() != null)) {
        mark(attempt.getApplicationAttemptId());
      }
    }
  }

  /**
   * Commits waiting updates that fit, before an answer's proposals. Checks a bounded number of applications, the least
   * recently checked first, and a bounded number of request keys of each user; the next tick goes on with the others.
   * Takes the scheduler's write lock only for updates whose node has room and, after a failed commit of an application,
   * a second later: causes such as a queue's maximum are found only with the lock held.
   *
   * @param mayCommit asked with the lock held; nothing is committed once it is false
   * @return how many were committed
   */
  public int place(BooleanSupplier mayCommit) {
    int placed = 0;
    int budget = UPDATES_A_TICK;
    long nowMs = settings.nowMs();
    stepsLeft = STEPS;
    stepsOfUser.clear();
    Map<ApplicationAttemptId, Round> looked = new LinkedHashMap<>();
    for (Map.Entry<ApplicationAttemptId, Round> next : next(budget, nowMs).entrySet()) {
      int stepsBefore = stepsLeft;
      FiCaSchedulerApp app = current(next.getKey());
      Round round = next.getValue();
      List<SchedulerRequestKey> ready = new ArrayList<>();
      boolean waits = app != null && look(app, round, ready, budget, nowMs);
      budget -= ready.size();
      int committed = ready.isEmpty() ? 0 : placeLocked(app, ready, mayCommit);
      placed += committed;
      round.fromMs += committed < ready.size() ? AGAIN_MS : 0;
      if (waits && stepsLeft < stepsBefore) {
        looked.put(next.getKey(), round);
      } else if (waits) {
        goOnLater(next.getKey(), round);
      }
    }
    // behind those for which no steps were left
    looked.forEach(this::goOnLater);
    release(Hold::isOver);
    return placed;
  }

  private Map<ApplicationAttemptId, Round> next(int most, long nowMs) {
    Map<ApplicationAttemptId, Round> next = new LinkedHashMap<>();
    synchronized (marked) {
      marked.entrySet().stream().filter(entry -> entry.getValue().fromMs <= nowMs).limit(most)
          .forEach(entry -> next.put(entry.getKey(), entry.getValue()));
      marked.keySet().removeAll(next.keySet());
    }
    return next;
  }

  private FiCaSchedulerApp current(ApplicationAttemptId attempt) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
    return app == null || app.isStopped() || !app.getApplicationAttemptId().equals(attempt) ? null : app;
  }

  /**
   * Goes on with a round as far as the steps go.
   *
   * @param ready to which updates are added whose nodes have room, at most {@code most}
   * @return whether updates may wait
   */
  private boolean look(FiCaSchedulerApp app, Round round, List<SchedulerRequestKey> ready, int most, long nowMs) {
    int ofUser = stepsOfUser.getOrDefault(app.getUser(), STEPS_OF_USER);
    int steps = Math.min(stepsLeft, ofUser);
    stepsLeft -= steps;
    ofUser -= steps;
    round.fromMs = nowMs;
    if (!round.keys.hasNext()) {
      round.begin(app);
    }
    while (steps > 0 && ready.size() < most && round.keys.hasNext()) {
      SchedulerRequestKey key = round.keys.next();
      steps -= key.getContainerToUpdate() == null ? 1 : look(app, key, round, ready, nowMs);
    }
    stepsLeft += steps;
    stepsOfUser.put(app.getUser(), ofUser + steps);
    return round.keys.hasNext() || round.found;
  }

  /**
   * Looks at an update, and holds its node if that has no room now. This may last, and is found out without the
   * scheduler's lock.
   *
   * @return the steps that it takes
   */
  private int look(FiCaSchedulerApp app, SchedulerRequestKey key, Round round, List<SchedulerRequestKey> ready,
      long nowMs) {
    round.found = true;
    RMContainer container = port.scheduler().getRMContainer(key.getContainerToUpdate());
    FiCaSchedulerNode node = container == null ? null : port.scheduler().getNode(container.getNodeId());
    Resource amount = app.getPendingAsk(key, ResourceRequest.ANY).getPerAllocationResource();
    Hold hold = node == null ? null : holds.get(node.getNodeID());
    boolean own = hold != null && hold.isFor(app, key);
    if (node == null || leaveRoom(app, key, node, amount)) {
      ready.add(key);
      if (own) {
        release(hold);
      }
      return UPDATE + LOCKED;
    }
    round.fromMs = nowMs + FULL_AGAIN_MS;
    if (hold != null && !(own && hold.isDue(amount, nowMs))) {
      return UPDATE;
    }
    SchedulerPort.locked(port.readLock(), () -> hold(app, key, container, nowMs));
    return UPDATE + LOCKED;
  }

  /** Releases the amounts held for updates: the engine does not schedule. */
  public void release() {
    release(hold -> true);
  }

  private void release(Predicate<Hold> condition) {
    holds.values().stream().filter(condition).collect(Collectors.toList()).forEach(this::release);
  }

  private void release(Hold hold) {
    NodeId node = hold.placement.node.getNodeID();
    holds.remove(node);
    taken.remove(hold.placement);
    held.remove(node);
    changed.accept(node);
  }

  /** Whether a node has room for an update next to what is held for others. */
  private boolean leaveRoom(FiCaSchedulerApp app, SchedulerRequestKey key, FiCaSchedulerNode node, Resource amount) {
    Hold hold = holds.get(node.getNodeID());
    Resource free = node.getUnallocatedResource();
    return Resources.fitsIn(port.scheduler().getResourceCalculator(), amount,
        hold == null || hold.isFor(app, key) ? free : Resources.subtract(free, hold.placement.capability));
  }

  /**
   * Holds the room of an update if a commit would only lack that, its user and queue may use so much and the node has
   * it at all. The caller holds a lock of the scheduler.
   */
  private void hold(FiCaSchedulerApp app, SchedulerRequestKey key, RMContainer container, long nowMs) {
    NodeId node = container.getNodeId();
    Hold before = holds.get(node);
    if (before != null) {
      release(before);
    }
    Placement placement = prepare(app, key, container);
    if (placement == null) {
      return;
    }
    Resource most = Resources.subtract(placement.node.getTotalResource(), container.getAllocatedResource());
    if (!Resources.fitsIn(port.scheduler().getResourceCalculator(), placement.capability, most)
        || isOverLimit(placement, container)) {
      return;
    }
    holds.put(node, new Hold(placement, nowMs));
    taken.add(placement);
    held.put(node, placement.capability);
    changed.accept(node);
  }

  /** The resources come from other containers that end here: their usage no longer counts against their queues then. */
  private boolean isOverLimit(Placement placement, RMContainer container) {
    Map<RMContainer, Resource> others = new HashMap<>();
    placement.node.getCopiedListOfRunningContainers()
        .forEach(other -> others.put(other, other.getAllocatedResource()));
    others.remove(container);
    others.forEach((other, amount) -> count(other, placement, Resources.negate(amount)));
    try {
      return checks().limitAgainst(placement, taken) != null;
    } finally {
      others.forEach((other, amount) -> count(other, placement, amount));
    }
  }

  private void count(RMContainer other, Placement placement, Resource amount) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(other.getApplicationAttemptId());
    for (CSQueue queue = app == null ? null : (CSQueue) app.getQueue(); queue != null; queue = queue.getParent()) {
      if ((placement.leaf.getQueuePath() + ".").startsWith(queue.getQueuePath() + ".")) {
        taken.take(queue, placement.node.getPartition(), amount);
      }
    }
  }

  private int placeLocked(FiCaSchedulerApp app, List<SchedulerRequestKey> keys, BooleanSupplier mayCommit) {
    Lock lock = port.writeLock();
    lock.lock();
    try {
      return (int) keys.stream().filter(key -> mayCommit.getAsBoolean() && placeOne(app, key)).count();
    } finally {
      lock.unlock();
    }
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
      return placement != null && leaveRoom(app, key, placement.node, placement.capability)
          && TreadleCommitRequest.tryCommit(scheduler, scheduler.getClusterResource(), placement) != null;
    } catch (Throwable e) {
      LOG.failure("a container update", e);
      return false;
    }
  }

  private Checks checks() {
    return new Checks(port.scheduler(), settings, held, null);
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

  /** A look at all updates of an application, in turns. */
  private static final class Round {
    /** When it goes on. */
    private long fromMs;
    /** Whether an update waits, or may since the AM has asked again. */
    private boolean found;
    private Iterator<SchedulerRequestKey> keys = Collections.emptyIterator();

    Round(long fromMs) {
      this.fromMs = fromMs;
    }

    private void begin(FiCaSchedulerApp app) {
      found = false;
      keys = Iterators.limit(app.getSchedulerKeys().iterator(), Cap.REQUEST_KEYS.ofApplication);
    }

    /** The AM does not wait then. */
    private Round askedAgain(Round asked) {
      fromMs = Math.min(fromMs, asked.fromMs);
      found = true;
      return this;
    }
  }
}

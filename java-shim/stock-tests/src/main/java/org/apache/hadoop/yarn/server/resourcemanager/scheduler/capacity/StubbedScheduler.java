// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.Shim;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.commit.TreadleCommitRequest;
import io.treadle.shim.link.Link;
import io.treadle.shim.wire.Directory;
import io.treadle.stock.StubEngine;
import io.treadle.stock.Tally;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.SimpleCandidateNodeSet;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Our scheduler enforcing, for Hadoop's own tests, which look at a cluster right after a heartbeat. After each, what
 * the stock scheduler would place on that node is found out by a pass of its own whose result is thrown away, proposed
 * by {@link StubEngine}, and committed by the shim as any engine's proposal is; then the heartbeat is over. So the
 * order of placement is the stock scheduler's, and the frame, the checks, the commit and the fates are ours. A pass
 * that would have reserved a node proposes nothing: Treadle makes no reservations.
 */
public class StubbedScheduler extends TreadleScheduler {
  private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(60);
  private static final long LOOK_MS = 2;
  private static final Map<StubbedScheduler, Boolean> ALL = new WeakHashMap<>();

  /** The placements of the current pass on this thread; null outside of a pass. */
  private final ThreadLocal<List<Wish>> pass = new ThreadLocal<>();
  private final Object turn = new Object();
  private final Natives natives = new Natives();
  /** The next proposals; null when the engine has nothing to do. Guarded by {@link #turn}. */
  private List<Wish> wished;
  private boolean proposed;
  private boolean over;

  /** Made by the ResourceManager. */
  public StubbedScheduler() {
    synchronized (ALL) {
      ALL.put(this, true);
    }
  }

  /** The scheduler whose link the calling thread is. */
  public static StubbedScheduler ofThisLink() throws IOException {
    synchronized (ALL) {
      for (StubbedScheduler scheduler : ALL.keySet()) {
        Link link = scheduler.link();
        if (link != null && Insides.get(link, "thread") == Thread.currentThread()) {
          return scheduler;
        }
      }
    }
    throw new IOException("the scheduler is still starting");
  }

  private Link link() {
    Shim current = shim();
    return current == null ? null : (Link) Insides.get(current, "link");
  }

  private static void enforce(Configuration conf) {
    conf.setIfUnset(ShimConfig.MODE, "enforce");
    conf.setIfUnset(ShimConfig.ENGINE_CLASS, StubEngine.class.getName());
    conf.setIfUnset(ShimConfig.TICK_MS, "1");
    conf.setIfUnset(ShimConfig.LEASE_MS, "60000");
    // heartbeats come when a test sends them
    conf.setIfUnset(ShimConfig.NODE_STALE_MS, "3600000");
  }

  @Override
  public void serviceInit(Configuration conf) throws Exception {
    enforce(conf);
    super.serviceInit(conf);
  }

  @Override
  public void reinitialize(Configuration conf, RMContext context) throws IOException {
    enforce(conf);
    super.reinitialize(conf, context);
  }

  @Override
  public void serviceStop() throws Exception {
    Shim current = shim();
    if (current != null) {
      Tally.add(current.metrics().numbers(), natives.counts());
    }
    super.serviceStop();
  }

  /** A placement without the engine requires a reason. */
  @Override
  @SuppressWarnings("rawtypes")
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    boolean ours = request instanceof TreadleCommitRequest;
    String reason = ours ? "" : nativeReason();
    boolean done = super.tryCommit(cluster, request, updatePending);
    if (done && !ours && !request.getContainersToAllocate().isEmpty()) {
      natives.count(reason);
    }
    return done;
  }

  /** The numbers of its shim's bean, once the ResourceManager has made it. */
  public Map<String, Long> numbers() {
    return shim().metrics().numbers();
  }

  private String nativeReason() {
    Shim current = shim();
    if (current == null || link() == null) {
      return Natives.byCaller("no engine");
    }
    Map<String, Long> numbers = current.metrics().numbers();
    String refusal = current.metrics().text("Refusal");
    boolean bySettings = !refusal.isEmpty() && numbers.get("Stalled") == 0;
    return bySettings ? Natives.REFUSED + refusal : Natives.byCaller("LeaseHeld " + numbers.get("LeaseHeld") + refusal);
  }

  @Override
  protected void nodeUpdate(RMNode node) {
    awaitLease();
    super.nodeUpdate(node);
    FiCaSchedulerNode there = getNode(node.getNodeID());
    if (there != null && !isAsynchronous() && schedules()) {
      placeAsStockWould(there);
    }
  }

  /** Where no heartbeat is under way, as on a thread of asynchronous scheduling, the gate is the turn of the engine. */
  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    boolean locked = ((ReentrantReadWriteLock.WriteLock) writeLock()).isHeldByCurrentThread();
    boolean ours = candidates != null && !withNodeHeartbeat && !locked;
    if (ours) {
      awaitLease();
    }
    CSAssignment nothing = super.allocateContainersToNode(candidates, withNodeHeartbeat);
    if (nothing == null && ours && schedules()) {
      // without the lock, as there: a test may have another thread take it during a pass
      candidates.getAllNodes().values().forEach(this::placeUnlocked);
    }
    return nothing;
  }

  private boolean isAsynchronous() {
    return getConfiguration().getScheduleAynschronously();
  }

  private boolean schedules() {
    Shim current = shim();
    return current != null && link() != null && current.metrics().numbers().get("LeaseHeld") == 1
        && current.metrics().text("Refusal").isEmpty();
  }

  /** An engine gets the lease a moment after the ResourceManager has started; a test does not wait for it. */
  private void awaitLease() {
    long begin = System.nanoTime();
    while (link() != null && !schedules() && shim().metrics().text("Refusal").isEmpty()
        && isSchedulerReady() && System.nanoTime() - begin < PATIENCE_NANOS) {
      link().signal();
      pause();
    }
  }

  private boolean isSchedulerReady() {
    return !rmContext.isWorkPreservingRecoveryEnabled() || rmContext.isSchedulerReadyForAllocatingContainers();
  }

  /** As the private method of CapacityScheduler that handles a heartbeat, several containers included. */
  private void placeAsStockWould(FiCaSchedulerNode node) {
    int offSwitch = 0;
    int assigned = 0;
    CSAssignment assignment;
    do {
      assignment = place(node);
      if (assignment != null) {
        offSwitch += assignment.getType() == NodeType.OFF_SWITCH ? 1 : 0;
        assigned += Resources.greaterThan(getResourceCalculator(), getClusterResource(), assignment.getResource(),
            Resources.none()) ? 1 : 0;
      }
    } while ((boolean) Insides.call(this, "canAllocateMore", new Class<?>[] {CSAssignment.class, int.class, int.class},
        assignment, offSwitch, assigned));
  }

  /** A pass under the lock, as at a heartbeat. */
  private CSAssignment place(FiCaSchedulerNode node) {
    List<Wish> wishes = new ArrayList<>();
    CSAssignment assignment;
    writeLock().lock();
    try {
      assignment = stockPass(node, wishes);
    } finally {
      writeLock().unlock();
    }
    commit(wishes);
    return assignment;
  }

  private void placeUnlocked(FiCaSchedulerNode node) {
    List<Wish> wishes = new ArrayList<>();
    stockPass(node, wishes);
    commit(wishes);
  }

  private CSAssignment stockPass(FiCaSchedulerNode node, List<Wish> wishes) {
    pass.set(wishes);
    try {
      return (CSAssignment) Insides.call(this, "allocateContainerOnSingleNode",
          new Class<?>[] {CandidateNodeSet.class, FiCaSchedulerNode.class, boolean.class},
          new SimpleCandidateNodeSet<>(node),
          node, true);
    } finally {
      pass.remove();
    }
  }

  /** Has the link propose and commit, and waits until it has. */
  private void commit(List<Wish> wishes) {
    if (wishes.isEmpty()) {
      return;
    }
    long begin = System.nanoTime();
    synchronized (turn) {
      wished = wishes;
      proposed = false;
      over = false;
    }
    while (!isOver() && schedules() && System.nanoTime() - begin < PATIENCE_NANOS) {
      link().signal();
      pause();
    }
  }

  private boolean isOver() {
    synchronized (turn) {
      return over;
    }
  }

  /**
   * The engine's next proposals: it asks at each frame, and the first call after a commit says that the commit is over.
   */
  public int[][] wishes() {
    Directory directory = (Directory) Insides.get(shim(), "mirror");
    synchronized (turn) {
      if (wished == null) {
        return new int[0][];
      }
      if (proposed) {
        over = true;
        wished = null;
        return new int[0][];
      }
      List<int[]> proposals = new ArrayList<>();
      for (Wish wish : wished) {
        int[] proposal = wish.proposal(directory);
        if (proposal != null) {
          proposals.add(proposal);
        }
      }
      proposed = true;
      return proposals.toArray(new int[0][]);
    }
  }

  /** A pass commits nothing: its placements are recorded, and its counts are undone. */
  @Override
  public void submitResourceCommitRequest(Resource cluster, CSAssignment assignment) {
    List<Wish> wishes = pass.get();
    if (wishes == null) {
      super.submitResourceCommitRequest(cluster, assignment);
      return;
    }
    ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request = createResourceCommitRequest(assignment);
    if (request != null) {
      for (ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> each : request.getContainersToAllocate()) {
        SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> container = each.getAllocatedOrReservedContainer();
        FiCaSchedulerApp application = container.getSchedulerApplicationAttempt();
        application.decUnconfirmedRes(each.getAllocatedOrReservedResource());
        wishes.add(new Wish(application.getApplicationAttemptId(), container.getSchedulerRequestKey(),
            container.getSchedulerNode().getNodeID()));
      }
    }
  }

  private static void pause() {
    try {
      Thread.sleep(LOOK_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}

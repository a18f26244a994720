// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.guard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.commit.Ask;
import io.treadle.shim.commit.AskSearch;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GatedScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** When the guard lets the stock scheduler in, and what it then takes for the engine's fault. The test is the clock. */
@Timeout(300)
class IdleGuardTest {
  private static final int GUARD_MS = 60_000;
  private static final int PRIORITY = 1;

  private static IdleGuard guard;

  private final Found search = new Found();
  private ClusterFixture cluster;
  private MockNM node;
  private long nowMs = 1_000_000;
  /** What another thread does when the clock is looked at next. */
  private Runnable atNextLook = () -> { };

  @AfterEach
  void stop() {
    if (cluster != null) {
      cluster.close();
    }
  }

  /** The stock scheduler, of which the guard hears as of Treadle's. */
  public static final class WatchedScheduler extends GatedScheduler {
    @Override
    @SuppressWarnings({"rawtypes", "unchecked"})
    public boolean tryCommit(Resource resources, ResourceCommitRequest request, boolean updatePending) {
      boolean committed = super.tryCommit(resources, request, updatePending);
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> known = request;
      if (committed && guard != null && !known.getContainersToAllocate().isEmpty()) {
        guard.placedNatively(known.getFirstAllocatedOrReservedContainer());
      }
      return committed;
    }

    @Override
    protected void completedContainerInternal(RMContainer container, ContainerStatus status,
        RMContainerEventType event) {
      super.completedContainerInternal(container, status, event);
      if (guard != null) {
        guard.ended(container);
      }
    }
  }

  /** Finds what a test says. */
  private static final class Found implements AskSearch {
    private final Set<Ask> asks = new HashSet<>();
    private boolean complete = true;
    private int begun;

    @Override
    public void begin() {
      begun++;
    }

    @Override
    public boolean goOn() {
      return true;
    }

    @Override
    public boolean complete() {
      return complete;
    }

    @Override
    public Set<Ask> found() {
      return asks;
    }
  }

  private void start(ClusterFixture.Builder description, int nodeMb) throws Exception {
    guard = null;
    cluster = description.set("per-node-heartbeat.maximum-offswitch-assignments", "100")
        .set("maximum-am-resource-percent", "1")
        .with(conf -> conf.setClass(YarnConfiguration.RM_SCHEDULER, WatchedScheduler.class, ResourceScheduler.class))
        .start();
    node = cluster.node("one", nodeMb, 64);
    guard = new IdleGuard(cluster.scheduler(), search, this::now);
    configure();
  }

  private long now() {
    Runnable due = atNextLook;
    atNextLook = () -> { };
    due.run();
    return nowMs;
  }

  private void configure() {
    guard.configure(GUARD_MS, 1000);
    assertNull(guard.suspension());
  }

  /** A guard without a cluster. */
  private void alone() {
    cluster = ClusterFixture.cluster().start();
    guard = new IdleGuard(cluster.scheduler(), search, () -> nowMs);
    configure();
    search.asks.add(new Ask(ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1),
        SchedulerRequestKey.create(ResourceRequest.newInstance(
            Priority.newInstance(1), "*", Resource.newInstance(1, 1), 1))));
  }

  /** Lets answers come, one a second, none of which places anything. */
  private void idle(int seconds) {
    for (int i = 0; i < seconds; i++) {
      nowMs += 1000;
      guard.answered(0);
    }
  }

  /** Lets so much time go by that a round must have begun. */
  private void idleUntilRound() {
    for (int i = 0; i < 80 && !guard.roundOpen(); i++) {
      idle(1);
    }
    assertTrue(guard.roundOpen());
  }

  /** Starts an application that asks for containers of 1 GB. */
  private MockAM job(int asks) throws Exception {
    RMApp app = cluster.submit("a", "u", 1024);
    MockAM am = cluster.startAm(app, node);
    cluster.scheduler().setClosed(true);
    am.allocate("*", 1024, asks, Collections.emptyList());
    cluster.rm().drainEvents();
    FiCaSchedulerApp attempt = cluster.attempt(app);
    search.asks.add(new Ask(attempt.getApplicationAttemptId(), Proposer.key(attempt, PRIORITY)));
    return am;
  }

  /** Heartbeats as in a round: the stock scheduler places. Answers how many containers it placed. */
  private int heartbeat() throws Exception {
    int before = cluster.schedulerNode(node).getNumContainers();
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    cluster.scheduler().setClosed(true);
    return cluster.schedulerNode(node).getNumContainers() - before;
  }

  private ContainerId anyTask(MockAM am) {
    return cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().stream()
        .filter(container -> !container.isAMContainer()).findFirst().get().getContainerId();
  }

  private void release(MockAM am, ContainerId container) throws Exception {
    am.allocate(Collections.emptyList(), Collections.singletonList(container));
    cluster.rm().drainEvents();
  }

  @Test
  void stockThatUsesRoomThatWasFreeCostsTheLease() throws Exception {
    start(ClusterFixture.cluster(), 8 * 1024);
    job(2);
    idle(60);
    assertFalse(guard.roundOpen(), "the ask was first seen on the way");
    idleUntilRound();
    assertNull(guard.suspension());
    assertTrue(heartbeat() > 0);
    assertTrue(guard.suspended());
    assertTrue(guard.suspension().contains("places nothing"), guard.suspension());
    assertTrue(guard.suspension().contains("-refreshQueues"), guard.suspension());
  }

  @Test
  void aContainerThatEndsInARoundIsNoProof() throws Exception {
    start(ClusterFixture.cluster(), 4 * 1024);
    MockAM am = job(50);
    assertEquals(3, heartbeat(), "the node is full");
    idleUntilRound();
    for (int i = 0; i < 3; i++) {
      release(am, anyTask(am));
      assertEquals(1, heartbeat(), "stock takes what came free");
      assertFalse(guard.suspended());
    }
    idle(3);
    assertFalse(guard.roundOpen());
    assertNull(guard.suspension());
  }

  @Test
  void roomBelowAMaximumThatCameInARoundIsNoProof() throws Exception {
    start(ClusterFixture.cluster().set("root.a.maximum-capacity", "50"), 8 * 1024);
    MockAM am = job(50);
    assertEquals(3, heartbeat(), "the queue is full, the node is not");
    idleUntilRound();
    release(am, anyTask(am));
    assertEquals(1, heartbeat());
    assertFalse(guard.suspended());
  }

  @Test
  void anAskThatDidNotWaitIsNoProof() throws Exception {
    start(ClusterFixture.cluster(), 8 * 1024);
    job(1);
    Set<Ask> others = new HashSet<>(search.asks);
    idleUntilRound();
    assertTrue(heartbeat() > 0);
    assertTrue(guard.suspended());
    configure();
    search.asks.clear();
    job(1);
    search.asks.clear();
    search.asks.addAll(others);
    idleUntilRound();
    assertTrue(heartbeat() > 0, "the new application is served");
    assertFalse(guard.suspended());
  }

  @Test
  void pausesGrowAndEndWithANewConfiguration() throws Exception {
    start(ClusterFixture.cluster(), 16 * 1024);
    MockAM am = job(1);
    for (long pauseMs = IdleGuard.FIRST_PAUSE_MS; pauseMs <= 2 * IdleGuard.FIRST_PAUSE_MS; pauseMs *= 2) {
      idleUntilRound();
      heartbeat();
      assertNotNull(guard.suspension());
      nowMs += pauseMs - 1;
      assertNotNull(guard.suspension());
      nowMs += 1;
      assertNull(guard.suspension());
      assertFalse(guard.suspended());
      guard.entered();
      am.allocate("*", 1024, 1, Collections.emptyList());
    }
    idleUntilRound();
    heartbeat();
    assertTrue(guard.suspended());
    configure();
    assertFalse(guard.suspended());
    assertEquals(3, guard.rounds());
  }

  @Test
  void whatIsCommittedStartsTheTimeAnew() {
    alone();
    for (int i = 0; i < 10; i++) {
      idle(55);
      guard.answered(1);
    }
    assertEquals(0, guard.rounds());
    idleUntilRound();
    assertTrue(guard.answered(1), "what stock left behind is put in order");
    assertFalse(guard.roundOpen());
  }

  @Test
  void aLookThatFindsNothingStartsTheTimeAnewUnlessItBrokeOff() {
    alone();
    Set<Ask> asks = new HashSet<>(search.asks);
    for (int i = 0; i < 5; i++) {
      search.asks.addAll(asks);
      idle(40);
      search.asks.clear();
      idle(20);
    }
    assertEquals(0, guard.rounds());
    search.complete = false;
    search.asks.addAll(asks);
    idle(40);
    search.asks.clear();
    idle(20);
    search.asks.addAll(asks);
    idle(40);
    assertEquals(1, guard.rounds());
  }

  @Test
  void waitingOnPurposeIsHonouredForTenMinutesAfterTheLastCommitOrEnd() {
    alone();
    guard.answered(1);
    guard.waitsFor("pilots");
    idle(600);
    assertEquals(0, search.begun);
    guard.answered(1);
    idle(600);
    assertEquals(0, search.begun);
    idle(90);
    assertEquals(1, guard.rounds());
  }

  @Test
  void zeroTurnsItOff() {
    alone();
    guard.configure(0, 1000);
    assertNull(guard.suspension());
    idle(1000);
    assertEquals(0, search.begun);
  }

  @Test
  void aRefreshThatComesBetweenIsNoSuspension() throws Exception {
    start(ClusterFixture.cluster(), 8 * 1024);
    job(2);
    idleUntilRound();
    heartbeat();
    assertNotNull(guard.suspension());
    atNextLook = () -> guard.configure(GUARD_MS, 1000);
    assertFalse(guard.suspension().contains("null"));
    assertNull(guard.suspension());
  }

  @Test
  void aRoundThatIsOverSuspendsNobody() throws Exception {
    start(ClusterFixture.cluster(), 8 * 1024);
    job(2);
    idleUntilRound();
    atNextLook = this::configure;
    assertTrue(heartbeat() > 0);
    assertFalse(guard.suspended(), "it was configured anew");
    job(2);
    idleUntilRound();
    atNextLook = () -> guard.answered(1);
    assertTrue(heartbeat() > 0);
    assertFalse(guard.suspended(), "the engine has committed meanwhile");
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.commons.lang3.reflect.FieldUtils;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.policy.PriorityUtilizationQueueOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeLabelsUpdateSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FairOrderingPolicy;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Resizes, reservations and refusals, while the gate is closed. */
class FeaturesTest {
  private static final int PRIORITY = 1;
  private static final String PREEMPTION = "org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity."
      + "ProportionalCapacityPreemptionPolicy";
  private static final String MONITORS = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.";

  private ClusterFixture cluster;
  private Proposer proposer;
  private CommitSettings settings;
  private MockNM node;
  private MockAM am;
  private FiCaSchedulerApp app;

  @BeforeEach
  void startJob() throws Exception {
    start(ClusterFixture.cluster());
  }

  private void start(ClusterFixture.Builder description) throws Exception {
    cluster = description.start();
    node = cluster.node("one", 8192, 8);
    cluster.node("two", 8192, 8);
    RMApp job = cluster.submit("a", "ann", 1024);
    am = cluster.startAm(job, node);
    app = cluster.attempt(job);
    cluster.scheduler().setClosed(true);
    settings = new CommitSettings(48, Proposer.NODE_STALE_MS, Time::monotonicNow);
    proposer = new Proposer(cluster);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private ContainerId runContainer() throws Exception {
    am.allocate("*", 1024, 1, Collections.emptyList());
    ContainerId id = proposer.add(app, PRIORITY, node).commit().container(0);
    assertEquals(1, am.schedule().getAllocatedContainers().size());
    node.nodeHeartbeat(app.getApplicationAttemptId(), id.getContainerId(),
        org.apache.hadoop.yarn.api.records.ContainerState.RUNNING);
    cluster.rm().waitForState(node, id, RMContainerState.RUNNING);
    return id;
  }

  private AllocateResponse resize(ContainerId id, int version, ContainerUpdateType type, int memoryMb)
      throws Exception {
    return am.sendContainerResizingRequest(Collections.singletonList(
        UpdateContainerRequest.newInstance(version, id, type, Resource.newInstance(memoryMb, 1), null)));
  }

  private Container updated(AllocateResponse first) throws Exception {
    AllocateResponse response = first;
    if (response.getUpdatedContainers().isEmpty()) {
      response = am.schedule();
    }
    assertEquals(1, response.getUpdatedContainers().size());
    return response.getUpdatedContainers().get(0).getContainer();
  }

  @Test
  void increaseIsPlacedOnItsOwnNodeWithoutAnEngine() throws Exception {
    ContainerId id = runContainer();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 3072);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(1, updates.place(() -> true));
    assertEquals(3072, updated(am.schedule()).getResource().getMemorySize());
    assertEquals(4096, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
    assertEquals(0, updates.place(() -> true));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void increaseBeyondTheNodeWaits() throws Exception {
    ContainerId id = runContainer();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 8192);
    updates.markAll();
    int locks = cluster.scheduler().writeLocks();
    assertEquals(0, updates.place(() -> true));
    assertEquals(2048, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
    assertEquals(0, updates.place(() -> false));
    assertEquals(locks, cluster.scheduler().writeLocks(), "a full node is seen without the scheduler's lock");
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  /** Its node has room, so that only a commit finds out: at most once a second, not in each of a hundred ticks. */
  @Test
  void increaseBeyondTheQueuesMaximumSeldomTakesTheLock() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().set("root.a.capacity", "25").set("root.b.capacity", "75")
        .set("root.a.maximum-capacity", "25"));
    long[] nowMs = {Time.monotonicNow()};
    ContainerUpdates updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs[0]), proposer.held(), any -> { });
    ContainerId id = runContainer();
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 4096);
    updates.mark(app.getApplicationAttemptId());
    int locks = cluster.scheduler().writeLocks();
    for (int tick = 0; tick < 200; tick++) {
      assertEquals(0, updates.place(() -> true));
      nowMs[0] += 10;
    }
    assertEquals(2, cluster.scheduler().writeLocks() - locks, "in two seconds");
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 2048);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(1, updates.place(() -> true), "an AM that asks anew does not wait");
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  /** Two containers of 4 GB fill the node: one ends, and its room is no other's. */
  @Test
  void roomIsHeldForAnIncreaseThatWaits() throws Exception {
    ContainerId id = runContainer();
    am.allocate("*", 2048, 3, Collections.emptyList());
    proposer.add(app, PRIORITY, node).add(app, PRIORITY, node).commit();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 4096);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(0, updates.place(() -> true));
    assertEquals(3072, proposer.held().get(node.getNodeId()).getMemorySize());
    assertEquals(Fate.NODE_FULL, proposer.add(app, PRIORITY, node).commit().fate(0));
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 3072);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(1, updates.place(() -> true), "2 GB are free");
    assertNull(proposer.held().get(node.getNodeId()));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void aSmallerIncreaseDoesNotTakeTheRoomThatIsHeld() throws Exception {
    ContainerId id = runContainer();
    ContainerId smaller = runContainer();
    am.allocate("*", 2048, 2, Collections.emptyList());
    CommitResult others = proposer.add(app, PRIORITY, node).add(app, PRIORITY, node).commit();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 4096);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(0, updates.place(() -> true));
    resize(smaller, 0, ContainerUpdateType.INCREASE_RESOURCE, 2048);
    updates.mark(app.getApplicationAttemptId());
    assertEquals(0, updates.place(() -> true), "1 GB is free, for the other one");
    am.allocate("*", 1024, 0, Collections.singletonList(others.container(0)));
    cluster.rm().drainEvents();
    updates.mark(app.getApplicationAttemptId());
    assertEquals(1, updates.place(() -> true));
    assertEquals(4096, updated(am.schedule()).getResource().getMemorySize());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  /** Each on a node that others fill. A tick looks at a part of them. */
  @Test
  void roomIsHeldForManyIncreasesInTurns() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().capacity("root.a", 90).capacity("root.b", 10)
        .set("root.b.user-limit-factor", "10"));
    int many = 70;
    cluster.node("spare", 200 * 1024, 200);
    RMApp other = cluster.submit("b", "bob", 1024);
    MockAM filler = cluster.startAm(other, node);
    am.allocate("*", 1024, many, Collections.emptyList());
    filler.allocate("*", 2048, many, Collections.emptyList());
    List<MockNM> full = new ArrayList<>();
    List<UpdateContainerRequest> increases = new ArrayList<>();
    for (int i = 0; i < many; i++) {
      MockNM next = cluster.node("full" + i, 3072, 3);
      full.add(next);
      ContainerId id = proposer.add(app, PRIORITY, next).add(cluster.attempt(other), PRIORITY, next).commit()
          .container(0);
      increases.add(UpdateContainerRequest.newInstance(0, id, ContainerUpdateType.INCREASE_RESOURCE,
          Resource.newInstance(2048, 1), null));
    }
    am.schedule();
    for (int i = 0; i < many; i++) {
      full.get(i).nodeHeartbeat(app.getApplicationAttemptId(), increases.get(i).getContainerId().getContainerId(),
          org.apache.hadoop.yarn.api.records.ContainerState.RUNNING);
    }
    cluster.rm().drainEvents();
    am.sendContainerResizingRequest(increases);
    long[] nowMs = {Time.monotonicNow()};
    ContainerUpdates updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs[0]), proposer.held(), any -> { });
    updates.mark(app.getApplicationAttemptId());
    assertEquals(0, updates.place(() -> true));
    long first = full.stream().filter(next -> proposer.held().get(next.getNodeId()) != null).count();
    assertTrue(first > 0 && first <= 20, "" + first);
    for (int tick = 0; tick < 20; tick++) {
      nowMs[0] += 50;
      updates.place(() -> true);
    }
    assertEquals(many, full.stream().filter(next -> proposer.held().get(next.getNodeId()) != null).count());
  }

  @Test
  void noRoomIsHeldBeyondTheNodeOrTheQueue() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().set("root.a.capacity", "25").set("root.b.capacity", "75")
        .set("root.a.maximum-capacity", "25"));
    ContainerId id = runContainer();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    for (int memoryMb : new int[] {8192, 7168}) {
      resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, memoryMb);
      updates.mark(app.getApplicationAttemptId());
      assertEquals(0, updates.place(() -> true));
      assertNull(proposer.held().get(node.getNodeId()), "" + memoryMb);
    }
  }

  @Test
  void whatIsHeldEndsWithItsContainer() throws Exception {
    ContainerId id = runContainer();
    long[] nowMs = {Time.monotonicNow()};
    ContainerUpdates updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs[0]), proposer.held(), any -> { });
    am.allocate("*", 2048, 3, Collections.emptyList());
    proposer.add(app, PRIORITY, node).add(app, PRIORITY, node).commit();
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 4096);
    updates.markAll();
    updates.place(() -> true);
    assertNotNull(proposer.held().get(node.getNodeId()));
    am.allocate("*", 1024, 0, Collections.singletonList(id));
    cluster.rm().drainEvents();
    nowMs[0] += 1000;
    updates.place(() -> true);
    nowMs[0] += 1000;
    updates.place(() -> true);
    assertNull(proposer.held().get(node.getNodeId()));
  }

  /** The node leaves the partition that the container was asked for in: the increase is not for its room any more. */
  @Test
  void whatIsHeldEndsWhereItCannotBeServed() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().label("gpu", true));
    ContainerId id = runContainer();
    long[] nowMs = {Time.monotonicNow()};
    ContainerUpdates updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs[0]), proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 8000);
    updates.markAll();
    updates.place(() -> true);
    assertNotNull(proposer.held().get(node.getNodeId()));
    moveNode("gpu");
    nowMs[0] += 1000;
    updates.place(() -> true);
    assertNull(proposer.held().get(node.getNodeId()));
    moveNode("");
    nowMs[0] += 1000;
    updates.place(() -> true);
    assertNotNull(proposer.held().get(node.getNodeId()));
  }

  private void moveNode(String partition) throws Exception {
    cluster.rm().getRMContext().getNodeLabelManager().replaceLabelsOnNode(Collections.singletonMap(node.getNodeId(),
        partition.isEmpty() ? Collections.emptySet() : Collections.singleton(partition)));
    cluster.scheduler().handle(new NodeLabelsUpdateSchedulerEvent(Collections.singletonMap(node.getNodeId(),
        partition.isEmpty() ? Collections.emptySet() : Collections.singleton(partition))));
    assertEquals(partition, cluster.schedulerNode(node).getPartition());
  }

  @Test
  void whatWasAssumedIsTakenBackWholly() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().label("gpu", true));
    am.allocate("*", 1024, 1, Collections.emptyList());
    Placement placement = new Placement();
    placement.app = app;
    placement.leaf = (CSQueue) app.getQueue();
    placement.node = cluster.schedulerNode(node);
    placement.key = Proposer.key(app, PRIORITY);
    placement.asks = app.getAppPlacementAllocator(placement.key);
    placement.locality = NodeType.NODE_LOCAL;
    placement.capability = Resource.newInstance(1024, 1);
    Assumptions assumptions = new Assumptions();
    assumptions.add(placement);
    assertEquals(1, assumptions.served(placement.asks, "*"));
    moveNode("gpu");
    assumptions.remove(placement);
    for (String partition : new String[] {"", "gpu"}) {
      for (Object holder : new Object[] {placement.leaf, placement.leaf.getParent(), placement.node, placement.user}) {
        assertNull(assumptions.used(holder, partition), holder + " in '" + partition + "'");
      }
    }
    assertEquals("{}{}", FieldUtils.readField(assumptions, "used", true) + ""
        + FieldUtils.readField(assumptions, "served", true), "nothing of ended applications is kept");
  }

  /** Whose updates cannot be served asks again in each tick, so that they are always due. */
  @Test
  void updatesOfWhoAsksAllTheTimeDoNotKeepOthersWaiting() throws Exception {
    cluster.close();
    int greedy = 5;
    int each = 18;
    start(ClusterFixture.cluster().capacity("root.a", 47).capacity("root.b", 53).set("root.a.maximum-capacity", "47")
        .set("maximum-am-resource-percent", "1"));
    node = cluster.node("large", (greedy * (each + 1) + 1) * 2048, 400);
    List<MockAM> masters = new ArrayList<>();
    for (int i = 0; i < greedy; i++) {
      masters.add(cluster.startAm(cluster.submit("a", "user" + i, 1024), node));
    }
    masters.add(cluster.startAm(cluster.submit("b", "patient", 1024), node));
    for (MockAM next : masters) {
      am = next;
      app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
      int containers = masters.indexOf(am) < greedy ? each : 1;
      am.allocate("*", 1024, containers, Collections.emptyList());
      CommitResult result = proposer.add(containers, app, PRIORITY, node).commit();
      am.schedule();
      List<UpdateContainerRequest> increases = new ArrayList<>();
      for (int i = 0; i < containers; i++) {
        node.nodeHeartbeat(app.getApplicationAttemptId(), result.container(i).getContainerId(),
            org.apache.hadoop.yarn.api.records.ContainerState.RUNNING);
        increases.add(UpdateContainerRequest.newInstance(0, result.container(i),
            ContainerUpdateType.INCREASE_RESOURCE, Resource.newInstance(containers > 1 ? 8192 : 2048, 1), null));
      }
      cluster.rm().drainEvents();
      am.sendContainerResizingRequest(increases);
    }
    long[] nowMs = {Time.monotonicNow()};
    ContainerUpdates updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs[0]), proposer.held(), any -> { });
    int placed = 0;
    for (int tick = 0; tick < 6; tick++) {
      masters.forEach(next -> updates.mark(next.getApplicationAttemptId()));
      placed += updates.place(() -> true);
      nowMs[0] += 10;
    }
    assertEquals(1, placed);
  }

  @Test
  void increaseOfAnEndedContainerIsTakenBack() throws Exception {
    ContainerId id = runContainer();
    ContainerUpdates updates =
        new ContainerUpdates(cluster.scheduler(), settings, proposer.held(), any -> { });
    resize(id, 0, ContainerUpdateType.INCREASE_RESOURCE, 3072);
    am.allocate("*", 1024, 0, Collections.singletonList(id));
    cluster.rm().drainEvents();
    updates.markAll();
    assertEquals(0, updates.place(() -> true));
    assertTrue(app.getSchedulerKeys().isEmpty());
    assertEquals(0, app.getAppAttemptResourceUsage().getPending().getMemorySize());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void decreaseNeedsNoCommit() throws Exception {
    am.allocate("*", 2048, 1, Collections.emptyList());
    ContainerId id = proposer.add(app, PRIORITY, node).commit().container(0);
    am.schedule();
    node.nodeHeartbeat(app.getApplicationAttemptId(), id.getContainerId(),
        org.apache.hadoop.yarn.api.records.ContainerState.RUNNING);
    cluster.rm().waitForState(node, id, RMContainerState.RUNNING);
    int commits = cluster.scheduler().commits();
    Container smaller = updated(resize(id, 0, ContainerUpdateType.DECREASE_RESOURCE, 1024));
    assertEquals(1024, smaller.getResource().getMemorySize());
    assertEquals(commits, cluster.scheduler().commits());
  }

  /** Two of three fit; the stock scheduler reserves the first node that it looks at for the third. */
  private void makeReservation() throws Exception {
    am.allocate("*", 5120, 3, Collections.emptyList());
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    cluster.heartbeatAll();
    cluster.scheduler().setClosed(true);
  }

  @Test
  void reservationsAreReleasedAndTheNodeIsUsable() throws Exception {
    makeReservation();
    long reserved = cluster.scheduler().getAllNodes().stream().filter(n -> n.getReservedContainer() != null).count();
    assertTrue(reserved > 0, "the stock scheduler made a reservation");
    Committer.releaseReservations(cluster.scheduler());
    assertEquals(0, cluster.scheduler().getAllNodes().stream().filter(n -> n.getReservedContainer() != null).count());
    assertEquals(0, cluster.scheduler().getRootQueue().getQueueResourceUsage().getReserved().getMemorySize());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  @Shows(Fate.NODE_RESERVED)
  void proposalOnReservedNodeReleasesIt() throws Exception {
    makeReservation();
    assertNotNull(cluster.schedulerNode(node).getReservedContainer());
    assertEquals(Fate.NODE_RESERVED, proposer.add(app, PRIORITY, node).commit().fate(0));
    assertNull(cluster.schedulerNode(node).getReservedContainer());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void refusalsNameTheKey() throws Exception {
    assertNull(FeatureRules.refusal(cluster.scheduler(), false, false));
    cluster.close();
    start(ClusterFixture.cluster().site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, "true")
        .set("lazy-preemption-enabled", "true"));
    assertTrue(FeatureRules.refusal(cluster.scheduler(), false, false).contains(FeatureRules.LAZY_PREEMPTION));
    cluster.close();
    cluster = ClusterFixture.cluster().set("multi-node-placement-enabled", "true").start();
    assertTrue(FeatureRules.refusal(cluster.scheduler(), false, false).contains(FeatureRules.MULTI_NODE_PLACEMENT));
  }

  @Test
  void sharesThatOverrideGuaranteesAreRefusedBesideThePreemptionMonitor() throws Exception {
    assertNull(FeatureRules.refusal(cluster.scheduler(), true, false));
    assertNull(refusal("true", MONITORS + "QueueConfigurationAutoRefreshPolicy", "false"));
    assertNull(refusal("true", PREEMPTION, "true"));
    for (String monitors : new String[] {PREEMPTION, MONITORS + "QueueConfigurationAutoRefreshPolicy," + PREEMPTION}) {
      String refusal = refusal("true", monitors, "false");
      assertTrue(refusal.contains("set " + YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS + " to false"));
      assertTrue(refusal.contains("policy.share.kind"));
      assertNull(FeatureRules.refusal(cluster.scheduler(), false, false));
    }
  }

  @Test
  void ordersOfTheirOwnAreRefusedBesidePreemptionInsideQueues() throws Exception {
    assertNull(FeatureRules.refusal(cluster.scheduler(), false, true));
    cluster.close();
    start(ClusterFixture.cluster().site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, "true")
        .site(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES, PREEMPTION));
    assertNull(FeatureRules.refusal(cluster.scheduler(), false, true));
    cluster.close();
    start(ClusterFixture.cluster().site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, "true")
        .site(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES, PREEMPTION)
        .site(FeatureRules.INTRA_QUEUE_PREEMPTION, "true"));
    assertNull(FeatureRules.refusal(cluster.scheduler(), false, false));
    assertTrue(FeatureRules.refusal(cluster.scheduler(), false, true)
        .contains(FeatureRules.INTRA_QUEUE_PREEMPTION));
  }

  @Test
  void mastersOnLentNodesAreRefused() throws Exception {
    cluster.close();
    start(ClusterFixture.cluster().site(FeatureRules.MASTERS_ON_LENT_NODES, "true"));
    assertTrue(FeatureRules.refusal(cluster.scheduler(), false, false)
        .contains(FeatureRules.MASTERS_ON_LENT_NODES));
  }

  @Test
  void preemptionThatGoesByReservationsIsRefusedWithItsKeys() throws Exception {
    List<String> keys = Arrays.asList(
        "yarn.resourcemanager.monitor.capacity.preemption.select_based_on_reserved_containers",
        "yarn.resourcemanager.monitor.capacity.preemption.additional_res_balance_based_on_reserved_containers",
        "yarn.scheduler.capacity.ordering-policy.priority-utilization.underutilized-preemption.enabled");
    for (String key : keys) {
      cluster.close();
      start(ClusterFixture.cluster().site(key, "true"));
      assertNull(FeatureRules.refusal(cluster.scheduler(), false, false), "nothing preempts");
      cluster.close();
      start(ClusterFixture.cluster().site(key, "true").site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, "true")
          .site(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES, PREEMPTION));
      String refusal = FeatureRules.refusal(cluster.scheduler(), false, false);
      assertTrue(refusal.contains("set " + key + " to false"), refusal);
    }
  }

  /** An order of applications of a site's own. */
  public static final class OwnOrder extends FairOrderingPolicy<FiCaSchedulerApp> {
  }

  /** An order of queues of a site's own. */
  public static final class OwnQueueOrder extends PriorityUtilizationQueueOrderingPolicy {
    /** As the scheduler makes one. */
    public OwnQueueOrder() {
      super(true);
    }
  }

  @Test
  void ordersThatTheEngineDoesNotKnowAreRefusedWithTheirClass() throws Exception {
    for (String known : new String[] {"fifo", "fair", "fifo-with-partitions"}) {
      cluster.close();
      start(ClusterFixture.cluster().set("root.b.ordering-policy", known));
      assertNull(FeatureRules.refusal(cluster.scheduler(), false, false), known);
    }
    cluster.close();
    start(ClusterFixture.cluster().set("root.b.ordering-policy", OwnOrder.class.getName()));
    String refusal = FeatureRules.refusal(cluster.scheduler(), false, false);
    assertTrue(refusal.contains(OwnOrder.class.getName()), refusal);
    assertTrue(refusal.contains("set yarn.scheduler.capacity.root.b.ordering-policy to fifo"), refusal);
    cluster.close();
    start(ClusterFixture.cluster().set("root.ordering-policy", "priority-utilization"));
    assertNull(FeatureRules.refusal(cluster.scheduler(), false, false));
    cluster.close();
    start(ClusterFixture.cluster().set("root.ordering-policy", OwnQueueOrder.class.getName()));
    refusal = FeatureRules.refusal(cluster.scheduler(), false, false);
    assertTrue(refusal.contains(OwnQueueOrder.class.getName()), refusal);
    assertTrue(refusal.contains("set yarn.scheduler.capacity.root.ordering-policy to utilization"), refusal);
  }

  private String refusal(String enabled, String monitors, String observeOnly) throws Exception {
    cluster.close();
    cluster = ClusterFixture.cluster().site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, enabled)
        .site(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES, monitors)
        .site(FeatureRules.PREEMPTION_OBSERVE_ONLY, observeOnly).start();
    return FeatureRules.refusal(cluster.scheduler(), true, false);
  }
}

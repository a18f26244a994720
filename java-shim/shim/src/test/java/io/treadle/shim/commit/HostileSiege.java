// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Proposals at random, most wrong, against a real ResourceManager whose applications ask and give back. After each
 * answer it looks whether a limit is broken and whether usage adds up, and whether every proposal has its fate.
 */
final class HostileSiege implements AutoCloseable {
  private static final int STRICT = 5;
  private static final String STRICT_NODE = "n0";
  private static final String BLACKLISTED = "n2";
  private static final int STEP_MB = 1024;
  private static final int CONTAINER_MB = 3 * STEP_MB;

  private final Random random;
  private final Set<Fate> seen = EnumSet.noneOf(Fate.class);
  private final List<MockNM> nodes = new ArrayList<>();
  private final List<MockAM> ams = new ArrayList<>();
  private MockAM cat;
  private final ClusterFixture cluster;
  private final Proposer proposer;
  private int round;

  /** A cluster with limits of all kinds, started. */
  HostileSiege(long seed) throws Exception {
    random = new Random(seed);
    cluster = ClusterFixture.cluster().queues("root", "a,b,c,p").capacity("root.a", 40).capacity("root.b", 40)
        .capacity("root.c", 10).capacity("root.p", 10)
        // each of its leaves may have what both may have together
        .queues("root.p", "p1,p2").capacity("root.p.p1", 50).capacity("root.p.p2", 50)
        .set("root.p.maximum-capacity", "20")
        .label("gpu", true, "n4").label("spare", false, "n5")
        .set("root.accessible-node-labels", "*")
        .set("root.accessible-node-labels.gpu.capacity", "100")
        .set("root.accessible-node-labels.spare.capacity", "100")
        .set("root.a.accessible-node-labels", "gpu,spare")
        .set("root.a.accessible-node-labels.gpu.capacity", "100")
        .set("root.a.accessible-node-labels.spare.capacity", "100")
        .set("root.a.maximum-capacity", "60").set("root.a.maximum-am-resource-percent", "0.2")
        .set("root.p.maximum-am-resource-percent", "1").set("root.b.maximum-capacity", "70")
        .set("root.b.user-limit-factor", "0.5").set("root.b.maximum-am-resource-percent", "0.2").start();
    for (int i = 0; i < 6; i++) {
      nodes.add(cluster.node("n" + i, 8192, 8));
    }
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
    for (int i = 0; i < 3; i++) {
      ams.add(cluster.startAm(cluster.submit("a", "ann" + i, 1024), nodes.get(i)));
    }
    ams.add(cluster.startAm(cluster.submit("b", "bob", 1024), nodes.get(3)));
    cluster.submit("b", "bob", 4096);
    ams.add(cluster.startAm(cluster.submit("p1", "pia", 1024), nodes.get(0)));
    ams.add(cluster.startAm(cluster.submit("p2", "pip", 1024), nodes.get(1)));
    cat = cluster.startAm(cluster.submit("c", "cat", 1024), nodes.get(3));
    ams.get(1).allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        ResourceBlacklistRequest.newInstance(Collections.singletonList(BLACKLISTED), Collections.emptyList())));
    proposer.indices().of((ApplicationAttemptId) null);
    nameEverything();
  }

  @Override
  public void close() {
    cluster.close();
  }

  /** The fates that were given so far. */
  Set<Fate> seen() {
    return seen;
  }

  ClusterFixture cluster() {
    return cluster;
  }

  Proposer proposer() {
    return proposer;
  }

  Random random() {
    return random;
  }

  /** Gives each node, attempt and key an index, and some that mean nothing. */
  private void nameEverything() {
    NamedIndices names = proposer.indices();
    nodes.forEach(node -> names.of(node.getNodeId()));
    names.of(NodeId.newInstance("nowhere", 1));
    cluster.scheduler().getSchedulerApplications().values().forEach(application -> {
      FiCaSchedulerApp attempt = application.getCurrentAppAttempt();
      for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
        names.of(attempt.getApplicationAttemptId(), key);
      }
    });
    names.of(ApplicationAttemptId.newInstance(ams.get(0).getApplicationAttemptId().getApplicationId(), 7));
  }

  void applicationsMove() throws Exception {
    for (MockAM am : ams) {
      FiCaSchedulerApp app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
      List<ContainerId> back = new ArrayList<>();
      for (RMContainer container : app.getLiveContainers()) {
        if (!container.isAMContainer() && random.nextInt(3) == 0) {
          back.add(container.getContainerId());
        }
      }
      String host = random.nextInt(3) == 0 ? "n" + random.nextInt(4) : "*";
      am.allocate(host, 1024 * (1 + random.nextInt(3)), random.nextInt(12), back);
    }
    cluster.heartbeatAll();
    nameEverything();
  }

  /** Ann asks for a container on one node and nowhere else. */
  private void askStrictly() throws Exception {
    List<ResourceRequest> asks = new ArrayList<>();
    for (String name : new String[] {STRICT_NODE, "/default-rack", "*"}) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(STRICT)).resourceName(name).numContainers(1)
          .capability(Resource.newInstance(1024, 1)).relaxLocality(STRICT_NODE.equals(name)).build());
    }
    ams.get(2).allocate(asks, Collections.emptyList());
  }

  /** For a moment without an engine the stock scheduler reserves a node for what fits on none. */
  private void stockReserves() throws Exception {
    List<ContainerId> back = new ArrayList<>();
    for (RMContainer container : cluster.scheduler().getApplicationAttempt(cat.getApplicationAttemptId())
        .getLiveContainers()) {
      if (!container.isAMContainer()) {
        back.add(container.getContainerId());
      }
    }
    cat.allocate("*", 4096, 1, back);
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    cluster.scheduler().setClosed(true);
  }

  private int any(int bound) {
    switch (random.nextInt(20)) {
      case 0:
        return random.nextInt();
      case 1:
        return bound;
      default:
        return random.nextInt(Math.max(1, bound));
    }
  }

  /**
   * One answer with some proposals, each twice.
   *
   * @throws AssertionError if a limit was broken or anything does not add up
   */
  void round(int proposals) throws Exception {
    NamedIndices names = proposer.indices();
    applicationsMove();
    askStrictly();
    if (round % 10 == 3) {
      stockReserves();
    }
    names.baseLater(round % 10 == 7 ? 2 * Proposer.NODE_STALE_MS : 0);
    for (int i = 0; i < proposals; i += 2) {
      int application = any(names.applications());
      int keys = application >= 0 && application < names.applications() ? names.requestKeys(application) : 1;
      int key = any(keys);
      int node = any(names.nodes());
      proposer.add(application, key, node).add(application, key, node);
    }
    CommitResult result = commit(proposals - 5);
    int counted = 0;
    for (int i = 0; i < proposals; i++) {
      Fate fate = result.fate(i);
      assertNotNull(fate, "a proposal without a fate");
      seen.add(fate);
      assertEquals(fate == Fate.COMMITTED, result.container(i) != null);
    }
    for (Fate fate : Fate.values()) {
      counted += result.count(fate);
    }
    assertEquals(proposals, counted, "fates counted");
    Committer.releaseReservations(cluster.scheduler());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes(), "round " + round);
    assertQueuesWithinLimits(cluster.scheduler().getRootQueue());
    assertUsersWithinLimits(CONTAINER_MB);
    assertPlacedWhereWanted();
    assertEquals(0, result.count(Fate.INTERNAL_ERROR));
    round++;
  }

  private CommitResult commit(int limit) {
    try {
      return proposer.limit(limit).commit();
    } catch (RuntimeException e) {
      throw new AssertionError("a commit threw", e);
    }
  }

  /** Nothing for who is not active, nothing on a blacklisted node, in a partition, or off the one node asked for. */
  private void assertPlacedWhereWanted() {
    cluster.scheduler().getSchedulerApplications().values().forEach(application -> {
      FiCaSchedulerApp attempt = application.getCurrentAppAttempt();
      for (RMContainer container : attempt.getLiveContainers()) {
        String host = container.getContainer().getNodeId().getHost();
        assertFalse(attempt.isWaitingForAMContainer() && !container.isAMContainer(), "a container before the master");
        assertFalse(host.equals("n4"), "a container in the partition gpu, which nobody asks for");
        assertFalse(host.equals(BLACKLISTED) && !container.isAMContainer() && blacklists(attempt),
            "a container on a blacklisted node");
        assertTrue(container.getAllocatedPriority().getPriority() != STRICT || host.equals(STRICT_NODE),
            "a container that was asked for on " + STRICT_NODE + " alone is on " + host);
      }
      assertTrue(isActive(attempt) || attempt.getLiveContainers().isEmpty(), "a container for who is not active");
    });
  }

  private boolean blacklists(FiCaSchedulerApp attempt) {
    return attempt.getApplicationAttemptId().equals(ams.get(1).getApplicationAttemptId());
  }

  private static boolean isActive(FiCaSchedulerApp attempt) {
    return ((AbstractLeafQueue) attempt.getQueue()).getApplications().contains(attempt);
  }

  private void assertQueuesWithinLimits(CSQueue queue) {
    for (String partition : new String[] {"", "gpu"}) {
      assertTrue(Resources.fitsIn(cluster.scheduler().getResourceCalculator(),
          queue.getQueueResourceUsage().getUsed(partition), queue.getEffectiveMaxCapacity(partition)),
          queue.getQueuePath() + " uses " + queue.getQueueResourceUsage().getUsed(partition));
    }
    if (queue.getChildQueues() != null) {
      queue.getChildQueues().forEach(this::assertQueuesWithinLimits);
    }
  }

  /** Bob may have half of what root.b is owed, rounded up to what is allocated at least, and one container more. */
  private void assertUsersWithinLimits(long oneContainerMb) {
    CSQueue queue = cluster.scheduler().getQueue("b");
    long usedMb = LeafQueues.users(queue).getUser("bob").getUsed("").getMemorySize();
    long halfMb = queue.getEffectiveCapacity("").getMemorySize() / 2;
    long limitMb = (halfMb + STEP_MB - 1) / STEP_MB * STEP_MB + oneContainerMb;
    assertTrue(usedMb <= limitMb, "bob uses " + usedMb + " MB of " + limitMb);
  }
}

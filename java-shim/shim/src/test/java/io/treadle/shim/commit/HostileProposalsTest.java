package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.cluster.Books;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
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
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Proposals at random, most wrong, while applications ask and give back: no limit is broken, all books add up. */
class HostileProposalsTest {
  private static final int ROUNDS = 100;
  private static final int PROPOSALS = 200;
  private static final int STRICT = 5;

  private final Random random = new Random(3);
  private final List<MockNM> nodes = new ArrayList<>();
  private final List<MockAM> ams = new ArrayList<>();
  private MockAM cat;
  private ClusterFixture cluster;
  private Proposer proposer;

  @BeforeEach
  void startCluster() throws Exception {
    cluster = ClusterFixture.cluster().queues("root", "a,b,c").capacity("root.a", 40).capacity("root.c", 10)
        .label("gpu", true, "n4").label("spare", false, "n5")
        .set("root.accessible-node-labels", "*")
        .set("root.accessible-node-labels.gpu.capacity", "100")
        .set("root.accessible-node-labels.spare.capacity", "100")
        .set("root.a.accessible-node-labels", "gpu,spare")
        .set("root.a.accessible-node-labels.gpu.capacity", "100")
        .set("root.a.accessible-node-labels.spare.capacity", "100")
        .set("root.a.maximum-capacity", "60").set("root.a.maximum-am-resource-percent", "0.2")
        .set("root.b.maximum-capacity", "70")
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
    cat = cluster.startAm(cluster.submit("c", "cat", 1024), nodes.get(3));
    ams.get(1).allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        ResourceBlacklistRequest.newInstance(Collections.singletonList("n2"), Collections.emptyList())));
    proposer.indices().of((ApplicationAttemptId) null);
    nameEverything();
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  /** Gives each node, attempt and key an index, and some that stand for nothing. */
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

  private void applicationsMove() throws Exception {
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
    for (String name : new String[] {"n0", "/default-rack", "*"}) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(STRICT)).resourceName(name).numContainers(1)
          .capability(Resource.newInstance(1024, 1)).relaxLocality("n0".equals(name)).build());
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

  @Test
  void noLimitIsBroken() throws Exception {
    Set<Fate> seen = EnumSet.noneOf(Fate.class);
    NamedIndices names = proposer.indices();
    Reservations reservations = new Reservations(cluster.scheduler(), CommitListener.NONE);
    for (int round = 0; round < ROUNDS; round++) {
      applicationsMove();
      askStrictly();
      if (round % 10 == 3) {
        stockReserves();
      }
      names.toldLater(round % 10 == 7 ? 2 * Proposer.NODE_STALE_MS : 0);
      for (int i = 0; i < PROPOSALS; i += 2) {
        int application = any(names.applications());
        int keys = application >= 0 && application < names.applications() ? names.requestKeys(application) : 1;
        int key = any(keys);
        int node = any(names.nodes());
        proposer.add(application, key, node).add(application, key, node);
      }
      CommitResult result = proposer.limit(PROPOSALS - 5).commit();
      for (int i = 0; i < PROPOSALS; i++) {
        seen.add(result.fate(i));
        assertEquals(result.fate(i) == Fate.COMMITTED, result.container(i) != null);
      }
      reservations.releaseAll();
      assertEquals("", new Books(cluster.scheduler()).mistakes(), "round " + round);
      assertQueuesWithinLimits(cluster.scheduler().getRootQueue());
      assertUsersWithinLimits(3 * 1024);
      assertEquals(0, result.count(Fate.INTERNAL_ERROR));
    }
    Set<Fate> expected = EnumSet.of(Fate.COMMITTED, Fate.NEGATIVE, Fate.OUT_OF_RANGE, Fate.UNKNOWN_APPLICATION,
        Fate.FINISHED_ATTEMPT, Fate.INACTIVE_APPLICATION, Fate.UNKNOWN_REQUEST, Fate.NO_PENDING_ASK, Fate.DUPLICATE,
        Fate.UNKNOWN_NODE, Fate.NODE_STALE, Fate.NODE_RESERVED, Fate.BLACKLISTED, Fate.WRONG_PARTITION, Fate.LOCALITY,
        Fate.NODE_FULL, Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.OVER_BATCH);
    expected.removeAll(seen);
    assertEquals(Collections.emptySet(), expected, "fates that were never given");
  }

  /** Judging is right if what it lets pass is what a commit then takes. */
  @Test
  void judgementForetellsTheCommit() throws Exception {
    NamedIndices names = proposer.indices();
    int differences = 0;
    int judgements = 0;
    for (int round = 0; round < ROUNDS; round++) {
      applicationsMove();
      int[][] rows = new int[30][];
      for (int i = 0; i < rows.length; i++) {
        int application = random.nextInt(names.applications());
        rows[i] = new int[] {application, random.nextInt(Math.max(1, names.requestKeys(application))),
            random.nextInt(names.nodes())};
        proposer.add(rows[i][0], rows[i][1], rows[i][2]);
      }
      Map<String, String> before = new Books(cluster.scheduler()).snapshot();
      CommitResult judged = proposer.judge();
      assertEquals(before, new Books(cluster.scheduler()).snapshot());
      for (int[] row : rows) {
        proposer.add(row[0], row[1], row[2]);
      }
      CommitResult committed = proposer.commit();
      for (int i = 0; i < rows.length; i++) {
        judgements++;
        differences += judged.fate(i).isRejection() == committed.fate(i).isRejection() ? 0 : 1;
      }
    }
    assertTrue(differences * 50 < judgements, differences + " of " + judgements + " judgements were wrong");
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

  /** Bob may have half of root.b's 16 GB, and one container more. */
  private void assertUsersWithinLimits(long oneContainerMb) {
    CSQueue queue = cluster.scheduler().getQueue("b");
    long usedMb = LeafQueues.user(queue, "bob").getUsed("").getMemorySize();
    long limitMb = queue.getEffectiveCapacity("").getMemorySize() / 2 + oneContainerMb;
    assertTrue(usedMb <= limitMb, "bob uses " + usedMb + " MB of " + limitMb);
  }
}

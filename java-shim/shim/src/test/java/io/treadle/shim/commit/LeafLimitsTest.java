// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The limits of leaves while the gate is closed are those that a native pass would set, and follow what siblings use.
 */
class LeafLimitsTest {
  private static final int GB = 1024;
  private static final int PRIORITY = 1;
  private static final String[] LEAVES = {"a", "x", "y"};

  private final Map<String, MockAM> masters = new LinkedHashMap<>();
  private ClusterFixture cluster;
  private MockNM node;

  @AfterEach
  void stop() {
    cluster.close();
  }

  /** 100 GB; a has 20 % and may have all, p has 80 %, may have 80 GB and gives half of it to x and to y. */
  private void start(boolean legacy) throws Exception {
    cluster = ClusterFixture.cluster().queues("root", "a,p").capacity("root.a", 20)
        .capacity("root.p", 80).set("root.p.maximum-capacity", "80")
        .queues("root.p", "x,y").capacity("root.p.x", 50).capacity("root.p.y", 50)
        .site(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_MB, Integer.toString(100 * GB))
        .set("legacy-queue-mode.enabled", Boolean.toString(legacy)).start();
    node = cluster.node("one", 100 * GB, 100);
    for (String leaf : LEAVES) {
      masters.put(leaf, cluster.startAm(cluster.submit(leaf, "ann", GB), node));
    }
    cluster.scheduler().setClosed(true);
    LeafLimits.refresh(cluster.scheduler());
  }

  private FiCaSchedulerApp app(String leaf) {
    return cluster.scheduler().getApplicationAttempt(masters.get(leaf).getApplicationAttemptId());
  }

  private void use(String leaf, int gb) throws Exception {
    masters.get(leaf).allocate("*", gb * GB, 1, Collections.emptyList());
    assertEquals(1, new Proposer(cluster).add(app(leaf), PRIORITY, node).commit().count(Fate.COMMITTED));
  }

  private void release(String leaf) throws Exception {
    List<ContainerId> all = new ArrayList<>();
    app(leaf).getLiveContainers().stream().filter(container -> !container.isAMContainer())
        .forEach(container -> all.add(container.getContainerId()));
    masters.get(leaf).allocate("*", GB, 0, all);
    cluster.rm().drainEvents();
  }

  private Map<String, Long> limitsGb() {
    Map<String, Long> found = new LinkedHashMap<>();
    for (String leaf : LEAVES) {
      found.put(leaf, LeafQueues.limit(cluster.scheduler().getQueue(leaf)).getMemorySize() / GB);
    }
    return found;
  }

  private static Map<String, Long> gb(long a, long x, long y) {
    Map<String, Long> expected = new LinkedHashMap<>();
    expected.put("a", a);
    expected.put("x", x);
    expected.put("y", y);
    return expected;
  }

  private long amLimitGb(String leaf) {
    return cluster.scheduler().getQueue(leaf).getQueueResourceUsage().getAMLimit().getMemorySize() / GB;
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theyAreThoseOfANativePass(boolean legacy) throws Exception {
    start(legacy);
    use("a", 7);
    use("x", 30);
    use("y", 20);
    LeafLimits.refresh(cluster.scheduler());
    Map<String, Long> ours = limitsGb();
    assertEquals(gb(48, 59, 49), ours);
    for (String leaf : LEAVES) {
      LeafQueues.setLimit(cluster.scheduler().getQueue(leaf), cluster.scheduler().getClusterResource(),
          Resource.newInstance(GB, 1));
      // the pass goes through each leaf and places nothing
      cluster.scheduler().allocate(app(leaf).getApplicationAttemptId(),
          Collections.singletonList(masters.get(leaf).createResourceReq("*", GB, PRIORITY, 1)), null,
          Collections.emptyList(), Collections.singletonList("one"), null, new ContainerUpdates());
    }
    assertEquals(gb(1, 1, 1), limitsGb());
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    assertEquals(60 * GB, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
    assertEquals(ours, limitsGb());
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void amLimitFollowsTheSiblings(boolean legacy) throws Exception {
    start(legacy);
    assertEquals(gb(98, 79, 79), limitsGb());
    assertEquals(10, amLimitGb("a"));
    use("x", 77);
    assertEquals(2, LeafLimits.refresh(cluster.scheduler()));
    assertEquals(gb(21, 79, 2), limitsGb());
    assertEquals(3, amLimitGb("a"), "10 % of 21 GB, in whole GB");
    assertEquals(4, amLimitGb("y"), "10 % of its guarantee");
    List<RMApp> more = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      more.add(cluster.submit("a", "ann", GB));
    }
    assertEquals(3, LeafQueues.active(cluster.scheduler().getQueue("a")).size());
    release("x");
    LeafLimits.refresh(cluster.scheduler());
    assertEquals(10, amLimitGb("a"));
    assertEquals(4, LeafQueues.active(cluster.scheduler().getQueue("a")).size(), "who waited is activated");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true})
  void leavesAreTouchedOnlyIfTheirsChanged(boolean legacy) throws Exception {
    start(legacy);
    assertEquals(0, LeafLimits.refresh(cluster.scheduler()), "nothing has changed");
    use("a", 10);
    assertEquals(0, LeafLimits.refresh(cluster.scheduler()),
        "a container of its own leaves its limit as it is; the others end at p's maximum");
    use("y", 40);
    assertEquals(2, LeafLimits.refresh(cluster.scheduler()));
    assertNotEquals(98, limitsGb().get("a"));
    assertEquals(0, LeafLimits.refresh(cluster.scheduler()));
  }
}

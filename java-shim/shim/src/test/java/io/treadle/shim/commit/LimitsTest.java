// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.util.resource.DominantResourceCalculator;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** No limit is broken by whatever is proposed, and the reason says which one it was. */
class LimitsTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private Proposer proposer;

  @AfterEach
  void stop() {
    cluster.close();
    ResourceUtils.resetResourceTypes();
  }

  private FiCaSchedulerApp start(ClusterFixture.Builder description, String user, MockNMs nodes) throws Exception {
    cluster = description.start();
    nodes.add(cluster);
    proposer = new Proposer(cluster);
    return startJob("a", user, nodes.first);
  }

  private FiCaSchedulerApp startJob(String queue, String user, MockNM node) throws Exception {
    RMApp job = cluster.submit(queue, user, 1024);
    MockAM am = cluster.startAm(job, node);
    cluster.scheduler().setClosed(true);
    am.allocate("*", 1024, 50, Collections.emptyList());
    cluster.rm().drainEvents();
    return cluster.attempt(job);
  }

  /** One node of 20 GB. */
  private static final class MockNMs {
    private MockNM first;

    void add(ClusterFixture cluster) throws Exception {
      first = cluster.node("one", 20 * 1024, 20);
    }
  }

  private CommitResult commitUnchangedAfter(int proposals, FiCaSchedulerApp app, MockNM node) {
    CommitResult result = proposer.add(proposals, app, PRIORITY, node).commit();
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    proposer.add(app, PRIORITY, node).commit();
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
    return result;
  }

  @Test
  @Shows(Fate.QUEUE_MAXIMUM)
  void queueMaximumIsHeld() throws Exception {
    MockNMs nodes = new MockNMs();
    FiCaSchedulerApp app = start(ClusterFixture.cluster().set("root.a.maximum-capacity", "50"), "ann", nodes);
    CommitResult result = commitUnchangedAfter(12, app, nodes.first);
    assertEquals(9, result.count(Fate.COMMITTED), "10 GB less the AM");
    assertEquals(3, result.count(Fate.QUEUE_MAXIMUM));
  }

  @Test
  void maximumOfAnAncestorIsHeld() throws Exception {
    MockNMs nodes = new MockNMs();
    ClusterFixture.Builder description = ClusterFixture.cluster().queues("root", "p,b").capacity("root.p", 50)
        .set("root.p.maximum-capacity", "50").queues("root.p", "a").capacity("root.p.a", 100);
    FiCaSchedulerApp app = start(description, "ann", nodes);
    CommitResult result = proposer.add(12, app, PRIORITY, nodes.first).commit();
    assertEquals(9, result.count(Fate.COMMITTED));
    assertEquals(3, result.count(Fate.QUEUE_MAXIMUM));
  }

  @Test
  @Shows(Fate.USER_LIMIT)
  void userLimitIsPassedByOneContainerAtMost() throws Exception {
    MockNMs nodes = new MockNMs();
    FiCaSchedulerApp app = start(ClusterFixture.cluster()
        .set("root.a.user-limit-factor", "0.5").set("root.a.maximum-capacity", "100"), "ann", nodes);
    CommitResult result = commitUnchangedAfter(12, app, nodes.first);
    // half of the queue's 10 GB are 5; the check is "used > limit", so 6 GB are used in the end, with the AM
    assertEquals(5, result.count(Fate.COMMITTED));
    assertEquals(7, result.count(Fate.USER_LIMIT));
  }

  @Test
  @Shows(Fate.INACTIVE_APPLICATION)
  void applicationsBeyondTheAmLimitGetNothing() throws Exception {
    MockNMs nodes = new MockNMs();
    start(ClusterFixture.cluster().set("root.a.maximum-am-resource-percent", "0.05"), "ann", nodes);
    RMApp second = cluster.submit("a", "ann", 1024);
    FiCaSchedulerApp waiting = cluster.attempt(second);
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    CommitResult result = proposer.add(waiting, waiting.getSchedulerKeys().iterator().next(),
        nodes.first.getNodeId()).commit();
    assertEquals(1, result.count(Fate.INACTIVE_APPLICATION));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
  }

  @Test
  void amContainerIsCommitted() throws Exception {
    MockNMs nodes = new MockNMs();
    start(ClusterFixture.cluster(), "ann", nodes);
    RMApp second = cluster.submit("b", "bob", 2048);
    FiCaSchedulerApp waiting = cluster.attempt(second);
    CommitResult result = proposer.add(waiting, waiting.getSchedulerKeys().iterator().next(),
        nodes.first.getNodeId()).commit();
    assertEquals(1, result.count(Fate.COMMITTED));
    cluster.rm().drainEvents();
    assertEquals(result.container(0), second.getCurrentAppAttempt().getMasterContainer().getId());
  }

  @Test
  void defaultCalculatorCountsMemoryOnly() throws Exception {
    cluster = ClusterFixture.cluster().start();
    proposer = new Proposer(cluster);
    MockNM node = cluster.node("one", 8192, 2);
    FiCaSchedulerApp app = startJob("a", "ann", node);
    assertEquals(7, proposer.add(8, app, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void dominantCalculatorCountsEveryResource() throws Exception {
    cluster = ClusterFixture.cluster().set("resource-calculator", DominantResourceCalculator.class.getName())
        .site(YarnConfiguration.RESOURCE_TYPES, "yarn.io/gpu").start();
    proposer = new Proposer(cluster);
    Resource capability = Resource.newInstance(16 * 1024, 16);
    capability.setResourceValue("yarn.io/gpu", 2);
    MockNM node = cluster.node("gpus", capability);
    RMApp job = cluster.submit("a", "ann", 1024);
    MockAM am = cluster.startAm(job, node);
    cluster.scheduler().setClosed(true);
    Resource withGpu = Resource.newInstance(1024, 1);
    withGpu.setResourceValue("yarn.io/gpu", 1);
    am.allocate(Collections.singletonList(ResourceRequest.newBuilder().resourceName("*").numContainers(5)
        .priority(org.apache.hadoop.yarn.api.records.Priority.newInstance(PRIORITY)).capability(withGpu).build()),
        Collections.emptyList());
    CommitResult result = commitUnchangedAfter(5, cluster.attempt(job), node);
    assertEquals(2, result.count(Fate.COMMITTED));
    assertEquals(3, result.count(Fate.NODE_FULL));
  }
}

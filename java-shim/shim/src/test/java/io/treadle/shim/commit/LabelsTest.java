// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import java.util.Map;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Partitions are kept: exclusive ones, and ones that lend what is idle to all but AMs. */
class LabelsTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private Proposer proposer;
  private MockNM plain;
  private MockNM exclusive;
  private MockNM lending;

  @BeforeEach
  void startNodes() throws Exception {
    cluster = ClusterFixture.cluster().label("gpu", true, "exclusive").label("spare", false, "lending")
        .set("root.accessible-node-labels", "*")
        .set("root.accessible-node-labels.gpu.capacity", "100")
        .set("root.accessible-node-labels.spare.capacity", "100")
        .set("root.a.accessible-node-labels", "gpu")
        .set("root.a.accessible-node-labels.gpu.capacity", "100")
        .set("root.b.accessible-node-labels", "spare")
        .set("root.b.accessible-node-labels.spare.capacity", "100").start();
    plain = cluster.node("plain", 8192, 8);
    exclusive = cluster.node("exclusive", 8192, 8);
    lending = cluster.node("lending", 8192, 8);
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private FiCaSchedulerApp start(String queue, String label) throws Exception {
    RMApp job = cluster.submit(queue, "ann", 1024);
    MockAM am = cluster.startAm(job, plain);
    am.allocate(Collections.singletonList(am.createResourceReq("*", 1024, PRIORITY, 4, label)),
        Collections.emptyList());
    return cluster.attempt(job);
  }

  private void assertRejected(FiCaSchedulerApp app, MockNM node) {
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    CommitResult result = proposer.add(app, app.getSchedulerKeys().iterator().next(), node.getNodeId()).commit();
    assertEquals(Fate.WRONG_PARTITION, result.fate(0));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
  }

  private void assertCommitted(FiCaSchedulerApp app, MockNM node) {
    assertEquals(Fate.COMMITTED, proposer.add(app, PRIORITY, node).commit().fate(0));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  @Shows(Fate.WRONG_PARTITION)
  void labelledAsksStayInTheirPartition() throws Exception {
    FiCaSchedulerApp app = start("a", "gpu");
    assertCommitted(app, exclusive);
    assertRejected(app, plain);
    assertRejected(app, lending);
  }

  @Test
  void plainAsksMayBorrowWhatIsLent() throws Exception {
    FiCaSchedulerApp app = start("a", "");
    assertCommitted(app, plain);
    assertCommitted(app, lending);
    assertRejected(app, exclusive);
  }

  @Test
  void amsDoNotBorrow() throws Exception {
    FiCaSchedulerApp waiting = cluster.attempt(cluster.submit("a", "ann", 1024));
    assertRejected(waiting, lending);
    assertRejected(waiting, exclusive);
  }
}

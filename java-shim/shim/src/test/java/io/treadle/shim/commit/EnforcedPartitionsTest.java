// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * An ordering policy may keep a partition for the applications of that partition, though its label lends. Each
 * placement is possible where the stock scheduler makes it, and only there.
 */
class EnforcedPartitionsTest {
  private static final String ORDER = "root.a.ordering-policy";

  private ClusterFixture cluster;
  private MockNM plain;
  private MockNM spare;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void start(String policy) throws Exception {
    cluster = ClusterFixture.cluster().label("spare", false, "spare")
        .set("root.accessible-node-labels", "*").set("root.accessible-node-labels.spare.capacity", "100")
        .set("root.a.accessible-node-labels", "spare").set("root.a.accessible-node-labels.spare.capacity", "50")
        .set("root.b.accessible-node-labels", "spare").set("root.b.accessible-node-labels.spare.capacity", "50")
        .set("root.a.accessible-node-labels.spare.maximum-am-resource-percent", "1")
        .set(ORDER, policy).set(ORDER + ".exclusive-enforced-partitions", "spare").start();
    plain = cluster.node("plain", 8192, 8);
    spare = cluster.node("spare", 8192, 8);
  }

  /** An application that asks for a container in a partition; only its AM has been placed. */
  private FiCaSchedulerApp job(String ofPartition, String inPartition) throws Exception {
    cluster.scheduler().setClosed(true);
    RMApp job = cluster.submit(MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm()).withQueue("a")
        .withUser("ann").withAppName("job").withAppNodeLabel(ofPartition).withAmLabel(ofPartition));
    MockAM am = cluster.startAm(job, ofPartition.isEmpty() ? plain : spare);
    am.allocate(Collections.singletonList(am.createResourceReq("*", 1024, 7, 1, inPartition)), Collections.emptyList());
    cluster.rm().drainEvents();
    return cluster.attempt(job);
  }

  private Fate proposed(FiCaSchedulerApp app, MockNM node) {
    SchedulerRequestKey key = app.getSchedulerKeys().iterator().next();
    return new Proposer(cluster).add(app, key, node.getNodeId()).judge().fate(0);
  }

  /** Whether the stock scheduler places it on a node that sends heartbeats alone. */
  private boolean stockPlaces(FiCaSchedulerApp app, MockNM node) throws Exception {
    cluster.scheduler().setClosed(false);
    for (int i = 0; i < 30 && app.getLiveContainers().size() == 1; i++) {
      node.nodeHeartbeat(true);
      cluster.rm().drainEvents();
    }
    return app.getLiveContainers().size() == 2;
  }

  private void check(String ofPartition, String inPartition, boolean onPlain, boolean onSpare) throws Exception {
    FiCaSchedulerApp app = job(ofPartition, inPartition);
    assertEquals(onPlain ? Fate.OBSERVED : Fate.WRONG_PARTITION, proposed(app, plain));
    assertEquals(onSpare ? Fate.OBSERVED : Fate.WRONG_PARTITION, proposed(app, spare));
    assertEquals(onSpare, stockPlaces(app, spare));
    if (!onSpare) {
      assertEquals(onPlain, stockPlaces(app, plain));
    }
  }

  @Test
  void aPlainFifoQueueBorrows() throws Exception {
    start("fifo");
    check("", "", true, true);
  }

  @Test
  void anEnforcedPartitionLendsNothing() throws Exception {
    start("fifo-with-partitions");
    check("", "", true, false);
  }

  /** Its asks may name the partition: what counts is the application's own. */
  @Test
  void anAskForAnEnforcedPartitionIsNotEnough() throws Exception {
    start("fifo-with-partitions");
    check("", "spare", false, false);
  }

  @Test
  void applicationsOfAnEnforcedPartitionStayThere() throws Exception {
    start("fifo-with-partitions");
    check("spare", "spare", false, true);
  }

  /** Such an ask must not cost an engine its lease. */
}

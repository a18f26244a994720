// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeDecommissioningEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEventType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A node that an administrator drains: no container comes, those that run end, and it goes or is taken back. */
class DrainingTest {
  private Cluster cluster;
  private MockNM node;
  private MockAM am;

  @BeforeEach
  void start() throws Exception {
    // a change of a node's state is no event of the scheduler: reviews find it
    cluster = new Cluster(Cluster.conf(),
        new MirrorSettings(1 << 20, Cluster.NEVER_MS, 0, Cluster.NEVER_MS));
    MockNM other = cluster.rm.registerNode("n0:1234", 2048, 2);
    RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, cluster.rm).withQueue("a").withUser("alice").withUnmanagedAM(false).build());
    am = MockRM.launchAndRegisterAM(app, cluster.rm, other);
    node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
    am.allocate(am.createReq(new String[] {"n1"}, 1024, 3, 4, -1), new ArrayList<>());
    for (int i = 0; i < 3; i++) {
      node.nodeHeartbeat(true);
    }
    cluster.tickAndCheck();
    am.allocate(new ArrayList<>(), new ArrayList<>());
    for (int number = 2; number <= 4; number++) {
      node.nodeHeartbeat(am.getApplicationAttemptId(), number, ContainerState.RUNNING);
      cluster.tickAndCheck();
    }
    assertTrue(row().contains("state=1"), row());
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private String row() {
    return cluster.model.nodes.values().stream().filter(each -> each.startsWith("n1 ")).findFirst().orElse("gone");
  }

  private void tell(RMNodeEvent event) {
    cluster.rm.getRMContext().getDispatcher().getEventHandler().handle(event);
    cluster.rm.drainEvents();
  }

  private void drain() throws Exception {
    tell(new RMNodeDecommissioningEvent(node.getNodeId(), 3600));
    cluster.rm.waitForState(node.getNodeId(), NodeState.DECOMMISSIONING);
    cluster.tickAndCheck();
    assertTrue(row().contains("state=2"), row());
  }

  @Test
  void itsContainersEndAndItGoes() throws Exception {
    drain();
    for (int number = 2; number <= 4; number++) {
      node.nodeHeartbeat(am.getApplicationAttemptId(), number, ContainerState.COMPLETE);
      cluster.tickAndCheck();
      assertTrue(row().contains("state=2"), row());
    }
    tell(new RMNodeEvent(node.getNodeId(), RMNodeEventType.DECOMMISSION));
    cluster.tickAndCheck();
    assertEquals("gone", row());
  }

  @Test
  void itGoesWithContainersOnIt() throws Exception {
    drain();
    tell(new RMNodeEvent(node.getNodeId(), RMNodeEventType.DECOMMISSION));
    cluster.tickAndCheck();
    assertEquals("gone", row());
  }

  @Test
  void itIsTakenBack() throws Exception {
    drain();
    tell(new RMNodeEvent(node.getNodeId(), RMNodeEventType.RECOMMISSION));
    cluster.rm.waitForState(node.getNodeId(), NodeState.RUNNING);
    cluster.tickAndCheck();
    assertTrue(row().contains("state=1"), row());
    am.allocate(am.createReq(new String[] {"n1"}, 1024, 2, 4, -1), new ArrayList<>());
    node.nodeHeartbeat(true);
    cluster.tickAndCheck();
  }
}

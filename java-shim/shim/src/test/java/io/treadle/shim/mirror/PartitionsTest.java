// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeLabel;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeLabelsUpdateSchedulerEvent;
import org.junit.jupiter.api.Test;

/** Partitions and their limits as an engine hears of them. */
class PartitionsTest {
  private static final String QUEUES = "yarn.scheduler.capacity.root.";

  /** Of the partition {@code gpu} queue a may have three quarters, b a quarter; {@code spare} is lent out. */
  private static Cluster start() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.setBoolean(YarnConfiguration.NODE_LABELS_ENABLED, true);
    conf.set(QUEUES + "accessible-node-labels", "*");
    for (String label : Arrays.asList("gpu", "spare")) {
      conf.set(QUEUES + "accessible-node-labels." + label + ".capacity", "100");
      conf.set(QUEUES + "a.accessible-node-labels", "gpu,spare");
      conf.set(QUEUES + "b.accessible-node-labels", "gpu,spare");
      conf.set(QUEUES + "a.accessible-node-labels." + label + ".capacity", "75");
      conf.set(QUEUES + "b.accessible-node-labels." + label + ".capacity", "25");
    }
    conf.set(QUEUES + "b.accessible-node-labels.gpu.maximum-capacity", "50");
    return new Cluster(conf, Cluster.settings(1 << 20), labels -> {
      labels.addToCluserNodeLabels(
          Arrays.asList(NodeLabel.newInstance("gpu", true), NodeLabel.newInstance("spare", false)));
      labels.addLabelsToNode(Collections.singletonMap(NodeId.newInstance("gpus", 0), Collections.singleton("gpu")));
      labels.addLabelsToNode(Collections.singletonMap(NodeId.newInstance("lent", 0), Collections.singleton("spare")));
    });
  }

  /** What is known of the node of a host. */
  private static String node(Cluster cluster, String host) {
    return cluster.model.nodes.values().stream().filter(row -> row.startsWith(host + " ")).findFirst().get();
  }

  private static MockAM startAm(Cluster cluster, MockNM node) throws Exception {
    return MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm,
        MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm).withQueue("a").withUser("alice")
            .withUnmanagedAM(false).build()), cluster.rm, node);
  }

  @Test
  void limitsAndNodesAreSentByPartition() throws Exception {
    try (Cluster cluster = start()) {
      MockNM plain = cluster.rm.registerNode("plain:1234", 8 * 1024, 8);
      MockNM gpus = cluster.rm.registerNode("gpus:1234", 16 * 1024, 16);
      cluster.rm.registerNode("lent:1234", 4 * 1024, 4);
      cluster.tickAndCheck();
      assertEquals("spare", cluster.model.settings.get("shared-partitions"));
      assertEquals("plain /default-rack  state=1 total=[8192, 8] free=[8192, 8]", node(cluster, "plain"));
      assertEquals("gpus /default-rack gpu state=1 total=[16384, 16] free=[16384, 16]", node(cluster, "gpus"));
      assertEquals("lent /default-rack spare state=1 total=[4096, 4] free=[4096, 4]", node(cluster, "lent"));
      assertEquals("[12288, 12] [16384, 16] [0, 0] [0, 0]", cluster.model.limits.get("root.a/gpu"));
      assertEquals("[4096, 4] [8192, 8] [0, 0] [0, 0]", cluster.model.limits.get("root.b/gpu"));
      assertEquals("[1024, 1] [4096, 4] [0, 0] [0, 0]", cluster.model.limits.get("root.b/spare"));
      MockAM am = startAm(cluster, plain);
      am.allocate(Collections.singletonList(am.createResourceReq("*", 2048, 3, 2, "gpu")), new ArrayList<>());
      cluster.tickAndCheck();
      assertEquals("[12288, 12] [16384, 16] [0, 0] [4096, 2]", cluster.model.limits.get("root.a/gpu"));
      assertTrue(cluster.model.applications.get(0L).requests.toString().contains("partition=gpu"));
      gpus.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertTrue(node(cluster, "gpus").endsWith("free=[14336, 15]"), node(cluster, "gpus"));
      assertTrue(cluster.model.users.containsKey("root.a/alice/gpu"), cluster.model.users.toString());
    }
  }

  @Test
  void aNodeThatMovesToAnotherPartitionIsSent() throws Exception {
    try (Cluster cluster = start()) {
      cluster.rm.registerNode("plain:1234", 8 * 1024, 8);
      cluster.rm.registerNode("gpus:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      NodeId moved = NodeId.newInstance("plain", 1234);
      Set<String> gpu = Collections.singleton("gpu");
      cluster.rm.getRMContext().getNodeLabelManager().replaceLabelsOnNode(Collections.singletonMap(moved, gpu));
      cluster.scheduler.handle(new NodeLabelsUpdateSchedulerEvent(Collections.singletonMap(moved, gpu)));
      cluster.tickAndCheck();
      assertEquals("plain /default-rack gpu state=1 total=[8192, 8] free=[8192, 8]", node(cluster, "plain"));
      assertEquals("[18432, 18] [24576, 24] [0, 0] [0, 0]", cluster.model.limits.get("root.a/gpu"));
      assertEquals("[0, 0] [0, 0] [0, 0] [0, 0]", cluster.model.limits.get("root.a/"));
    }
  }
}

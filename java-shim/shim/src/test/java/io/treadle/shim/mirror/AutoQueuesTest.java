// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AutoCreatedLeafQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.QueueEntitlement;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AutoCreatedQueueDeletionEvent;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Leaf queues that the scheduler makes for an application, in both of its ways, and that go again. */
class AutoQueuesTest {
  private static final String PREFIX = "yarn.scheduler.capacity.";
  private static final String LEAF = "root.b.alice";

  private final YarnConfiguration conf = Cluster.conf();
  private Cluster cluster;
  private MockNM node;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void start() throws Exception {
    conf.unset(PREFIX + "root.b.ordering-policy");
    conf.unset(PREFIX + "root.b.ordering-policy.fair.enable-size-based-weight");
    conf.set(PREFIX + "queue-mappings", "u:%user:root.b.%user");
    conf.set(PREFIX + "queue-mappings-override.enable", "true");
    cluster = new Cluster(conf, Cluster.settings(1 << 20));
    node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
    cluster.tickAndCheck();
    assertFalse(isKnown(LEAF));
  }

  private boolean isKnown(String path) {
    return cluster.model.queues.values().stream().anyMatch(row -> row.startsWith(path + " "));
  }

  /** An application comes, asks, gets containers and ends; what it knows is compared after each step. */
  private void liveAndEnd() throws Exception {
    RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue("default").withUser("alice").withUnmanagedAM(false).build());
    cluster.tickAndCheck();
    assertTrue(isKnown(LEAF), cluster.model.queues.toString());
    MockAM am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
    cluster.tickAndCheck();
    am.allocate(am.createReq(new String[] {"n1"}, 1024, 3, 4, -1), new ArrayList<>());
    cluster.tickAndCheck();
    node.nodeHeartbeat(true);
    cluster.tickAndCheck();
    cluster.rm.killApp(app.getApplicationId());
    cluster.rm.waitForState(app.getApplicationId(), RMAppState.KILLED);
    cluster.tickAndCheck();
    assertTrue(isKnown(LEAF));
  }

  private void assertForgotten(CSQueue leaf) throws Exception {
    for (int i = 0; i < 7; i++) {
      // what no event names is noticed within a second
      cluster.tick();
    }
    cluster.tickAndCheck();
    assertFalse(isKnown(LEAF), cluster.model.queues.toString());
    assertFalse(Reach.from(cluster.mirror).to(leaf), "the mirror keeps a removed queue in memory");
    assertEquals(1, cluster.model.snapshots);
  }

  @Test
  void flexible() throws Exception {
    conf.set(PREFIX + "root.a.capacity", "3w");
    conf.set(PREFIX + "root.b.capacity", "2w");
    conf.set(PREFIX + "root.b.auto-queue-creation-v2.enabled", "true");
    conf.set(PREFIX + "auto-queue-creation-v2.queue-expiration-time", "-1");
    start();
    for (int i = 0; i < 2; i++) {
      liveAndEnd();
      CSQueue leaf = cluster.scheduler.getQueue(LEAF);
      cluster.scheduler.handle(new AutoCreatedQueueDeletionEvent(leaf));
      assertEquals(null, cluster.scheduler.getQueue(LEAF));
      cluster.tickAndCheck();
      assertForgotten(leaf);
    }
  }

  @Test
  void legacy() throws Exception {
    conf.set(PREFIX + "root.b.auto-create-child-queue.enabled", "true");
    conf.set(PREFIX + "root.b.leaf-queue-template.capacity", "50");
    conf.set(PREFIX + "root.b.leaf-queue-template.maximum-capacity", "100");
    start();
    for (int i = 0; i < 2; i++) {
      liveAndEnd();
      CSQueue leaf = cluster.scheduler.getQueue(LEAF);
      ((AutoCreatedLeafQueue) leaf).setEntitlement("", new QueueEntitlement(0, 1));
      cluster.scheduler.removeQueue(LEAF);
      assertForgotten(leaf);
    }
  }
}

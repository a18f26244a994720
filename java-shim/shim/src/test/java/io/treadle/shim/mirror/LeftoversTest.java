// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNodes;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AutoCreatedQueueDeletionEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeAddedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeRemovedSchedulerEvent;
import org.junit.jupiter.api.Test;

/** Of queues, users, applications and nodes that have gone the mirror keeps nothing, but for their indices. */
class LeftoversTest {
  private static final int MANY = 1000;
  private static final String PREFIX = "yarn.scheduler.capacity.";

  private static YarnConfiguration conf() {
    YarnConfiguration conf = Cluster.conf();
    conf.unset(PREFIX + "root.b.ordering-policy");
    conf.unset(PREFIX + "root.b.ordering-policy.fair.enable-size-based-weight");
    conf.set(PREFIX + "root.a.capacity", "3w");
    conf.set(PREFIX + "root.b.capacity", "2w");
    conf.set(PREFIX + "root.b.auto-queue-creation-v2.enabled", "true");
    conf.set(PREFIX + "auto-queue-creation-v2.queue-expiration-time", "-1");
    return conf;
  }

  @Test
  void nothingIsKept() throws Exception {
    try (Cluster cluster = new Cluster(conf(), Cluster.settings(1 << 22))) {
      MockNM stays = cluster.rm.registerNode("stays:1", 16 * 1024, 16);
      cluster.tickAndCheck();
      round(cluster, stays, 0, 10);
      long before = Reach.from(cluster.mirror).count();
      round(cluster, stays, 10, MANY);
      long after = Reach.from(cluster.mirror).count();
      assertEquals(1, cluster.model.snapshots);
      // names of queues, users and nodes stay, with their numbers, until the next snapshot; applications' do not
      long texts = cluster.model.texts.size();
      assertTrue(texts > 3 * MANY && texts < 3 * MANY + 500, "" + texts);
      assertTrue(after - before < 3 * texts, before + " objects before, " + after + " after, " + texts + " texts");
    }
  }

  private static void round(Cluster cluster, MockNM stays, int from, int to) throws Exception {
    for (int i = from; i < to; i++) {
      RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
          .createWithMemory(1024, cluster.rm).withQueue("root.b.u" + i).withUser("u" + i)
          .withAppName("job" + i).withAppType("type" + i)
          .withUnmanagedAM(false).build());
      RMNode node = MockNodes.newNodeInfo(0, Resource.newInstance(1024, 1), i, "n" + i, 1);
      cluster.scheduler.handle(new NodeAddedSchedulerEvent(node));
      if (i % 50 == 0) {
        MockAM am = MockRM.launchAndRegisterAM(app, cluster.rm, stays);
        am.allocate(am.createReq(new String[] {"n" + i}, 1024, 2, 4, -1), new ArrayList<>());
        stays.nodeHeartbeat(true);
      }
      cluster.tick();
      cluster.rm.killApp(app.getApplicationId());
      cluster.rm.drainEvents();
      cluster.scheduler.handle(new NodeRemovedSchedulerEvent(node));
      cluster.tick();
      cluster.scheduler.handle(new AutoCreatedQueueDeletionEvent(cluster.scheduler.getQueue("root.b.u" + i)));
      cluster.scheduler.journal.queuesChanged();
    }
    for (int i = 0; i < 20; i++) {
      cluster.tick();
    }
    cluster.check();
  }
}

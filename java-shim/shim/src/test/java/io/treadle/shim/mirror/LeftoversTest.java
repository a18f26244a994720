// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.ContainerUpdates;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.hadoop.util.Time;
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
      ContainerUpdates updates = new ContainerUpdates(cluster.scheduler,
          new CommitSettings(48, Cluster.NEVER_MS, Time::monotonicNow), new HashMap<>(), any -> { });
      round(cluster, updates, stays, 0, 100);
      long before = Reach.from(Arrays.asList(cluster.mirror, updates)).count();
      round(cluster, updates, stays, 100, 100 + MANY);
      long after = Reach.from(Arrays.asList(cluster.mirror, updates)).count();
      assertEquals(1, cluster.model.snapshots);
      // names of queues, users and nodes stay, with their numbers, until the next snapshot; applications' do not
      long more = after - before - 2 * 3 * MANY;
      assertTrue(more < MANY / 4, before + " objects before, " + after + " after");
    }
  }

  private static void round(Cluster cluster, ContainerUpdates updates, MockNM stays, int from, int to)
      throws Exception {
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
      updates.mark(app.getCurrentAppAttempt().getAppAttemptId());
      updates.place(() -> true);
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
    updates.place(() -> true);
    cluster.check();
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Moves to other queues and changes of priority cause no event: reviews find them, those of queues within a second. */
class ApplicationChangesTest {
  private static final int TICKS_A_SECOND = 7;

  private Cluster cluster;
  private MockNM node;
  private RMApp app;
  private MockAM am;

  @BeforeEach
  void start() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.setInt(YarnConfiguration.MAX_CLUSTER_LEVEL_APPLICATION_PRIORITY, 10);
    cluster = new Cluster(conf, new MirrorSettings(1 << 20, Cluster.NEVER_MS, 0, 0));
    node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
    app = submit();
    am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
    am.allocate(am.createReq(new String[] {"n1"}, 1024, 5, 4, -1), new ArrayList<>());
    cluster.tickAndCheck();
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private RMApp submit() throws Exception {
    return MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue("a").withUser("alice").withUnmanagedAM(false).build());
  }

  private void settleAndCheck() {
    for (int i = 0; i < TICKS_A_SECOND; i++) {
      cluster.tick();
    }
    cluster.tickAndCheck();
  }

  private String row(RMApp of) {
    String id = of.getApplicationId().getClusterTimestamp() + "_" + of.getApplicationId().getId() + "_1";
    return cluster.model.applications.values().stream().filter(each -> each.id.equals(id)).findFirst().get().row;
  }

  @Test
  void anApplicationThatRunsMoves() throws Exception {
    cluster.scheduler.moveApplication(app.getApplicationId(), "b");
    settleAndCheck();
    assertTrue(row(app).contains(" root.b "), row(app));
    node.nodeHeartbeat(true);
    cluster.tickAndCheck();
    am.allocate(am.createReq(new String[] {"n1"}, 1024, 1, 3, -1), new ArrayList<>());
    cluster.tickAndCheck();
    assertTrue(cluster.model.users.containsKey("root.b/alice/"), cluster.model.users.toString());
    cluster.scheduler.moveApplication(app.getApplicationId(), "a");
    settleAndCheck();
    assertTrue(row(app).contains(" root.a "), row(app));
    assertEquals(1, cluster.model.snapshots);
  }

  @Test
  void anApplicationThatWaitsForItsMasterMoves() throws Exception {
    RMApp waiting = submit();
    cluster.tickAndCheck();
    cluster.scheduler.moveApplication(waiting.getApplicationId(), "b");
    settleAndCheck();
    assertTrue(row(waiting).contains(" root.b "), row(waiting));
    MockRM.launchAndRegisterAM(waiting, cluster.rm, node);
    cluster.tickAndCheck();
  }

  @Test
  void allApplicationsOfAQueueMove() throws Exception {
    submit();
    cluster.tickAndCheck();
    cluster.scheduler.moveAllApps("a", "b");
    cluster.rm.drainEvents();
    settleAndCheck();
    cluster.model.applications.values().forEach(each -> assertTrue(each.row.contains(" root.b "), each.row));
  }

  private void update(RMApp of, int priority) throws Exception {
    cluster.scheduler.updateApplicationPriority(Priority.newInstance(priority), of.getApplicationId(), null,
        UserGroupInformation.createRemoteUser(of.getUser()));
  }

  @Test
  void aPriorityIsUpdated() throws Exception {
    for (int priority : new int[] {7, 2, 10}) {
      update(app, priority);
      cluster.tickAndCheck();
      assertTrue(row(app).contains(" priority=" + priority + " "), row(app));
    }
  }

  @Test
  void thePriorityOfOneThatWaitsIsUpdated() throws Exception {
    RMApp waiting = submit();
    cluster.tickAndCheck();
    update(waiting, 4);
    cluster.tickAndCheck();
    assertTrue(row(waiting).contains(" priority=4 "), row(waiting));
    MockRM.launchAndRegisterAM(waiting, cluster.rm, node);
    cluster.tickAndCheck();
    assertTrue(row(waiting).contains(" priority=4 "), row(waiting));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * What happens to an application's containers and blacklist when its AM fails and a new attempt begins. The master is
 * on one node, its tasks fill another.
 */
class KeptContainersTest {
  private static final int TASKS = 4;
  private static final int TASK_MB = 1024;

  private MirrorSettings settings = Cluster.settings(1 << 20);
  private Cluster cluster;
  private MockNM masters;
  private MockNM node;
  private RMApp app;
  private MockAM am;

  @AfterEach
  void stop() {
    cluster.close();
  }

  /** An application whose AM, container 1, and tasks run. */
  private void start(YarnConfiguration conf, boolean keeps) throws Exception {
    conf.setInt(YarnConfiguration.RM_AM_MAX_ATTEMPTS, 3);
    cluster = new Cluster(conf, settings);
    masters = cluster.rm.registerNode("n0:1234", 16 * 1024, 16);
    node = cluster.rm.registerNode("n1:1234", TASKS * TASK_MB, 16);
    app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(4 * TASK_MB, cluster.rm)
        .withQueue("a").withUser("alice").withUnmanagedAM(false).withKeepContainers(keeps)
        .withMaxAppAttempts(3).build());
    am = MockRM.launchAndRegisterAM(app, cluster.rm, masters);
    cluster.tickAndCheck();
    am.allocate(am.createReq(new String[] {"n1"}, TASK_MB, 5, TASKS, -1), new ArrayList<>());
    for (int i = 0; i < TASKS; i++) {
      node.nodeHeartbeat(true);
    }
    cluster.tickAndCheck();
    am.allocate(new ArrayList<>(), new ArrayList<>());
    for (int number = 2; number <= TASKS + 1; number++) {
      node.nodeHeartbeat(am.getApplicationAttemptId(), number, ContainerState.RUNNING);
      cluster.tickAndCheck();
    }
    assertEquals(TASKS + 1, known());
  }

  private int known() {
    return cluster.model.applications.values().iterator().next().containers.size();
  }

  private void end(int number) throws Exception {
    node.nodeHeartbeat(am.getApplicationAttemptId(), number, ContainerState.COMPLETE);
    cluster.rm.drainEvents();
  }

  private void failMaster() throws Exception {
    ContainerId master = ContainerId.newContainerId(am.getApplicationAttemptId(), 1);
    masters.nodeHeartbeat(Collections.singletonMap(app.getApplicationId(), Collections.singletonList(
        ContainerStatus.newInstance(master, ContainerState.COMPLETE, "", 1))), true);
    cluster.rm.waitForState(am.getApplicationAttemptId(), RMAppAttemptState.FAILED);
    cluster.rm.waitForState(app.getApplicationId(), RMAppState.ACCEPTED);
    cluster.rm.drainEvents();
  }

  private MockAM nextMaster() throws Exception {
    MockAM next = MockRM.launchAM(app, cluster.rm, masters);
    cluster.tickAndCheck();
    next.registerAppAttempt();
    cluster.tickAndCheck();
    return next;
  }

  @Test
  void theyStayWithTheNextAttempt() throws Exception {
    start(Cluster.conf(), true);
    failMaster();
    cluster.tickAndCheck();
    assertEquals(TASKS, known());
    nextMaster();
    assertEquals(TASKS + 1, known());
    end(2);
    cluster.tickAndCheck();
    assertEquals(TASKS, known());
    long number = 2 | 1L << ContainerSection.KEPT_SHIFT;
    assertTrue(cluster.model.containers.contains(number + " event=3 exit=0 treadle=1 am=0"),
        cluster.model.containers.toString());
    assertEquals(1, cluster.model.snapshots);
  }

  @Test
  void oneMayEndInTheFrameInWhichTheAttemptBegins() throws Exception {
    start(Cluster.conf(), true);
    failMaster();
    end(3);
    cluster.tickAndCheck();
    nextMaster();
    assertEquals(TASKS, known());
    end(4);
    cluster.tickAndCheck();
    assertEquals(TASKS - 1, known());
  }

  /** The next attempt counts its own from 1, too. */
  @Test
  void containersOfTheNextAttemptHaveOtherNumbers() throws Exception {
    start(Cluster.conf(), true);
    failMaster();
    MockAM next = nextMaster();
    next.allocate(next.createReq(new String[] {"n0"}, TASK_MB, 5, TASKS, -1), new ArrayList<>());
    masters.nodeHeartbeat(true);
    cluster.tickAndCheck();
    assertTrue(known() > TASKS + 2, "" + known());
    int before = known();
    end(2);
    cluster.tickAndCheck();
    assertEquals(before - 1, known());
  }

  @Test
  void theyStayThroughTwoAttemptsAndASnapshot() throws Exception {
    start(Cluster.conf(), true);
    failMaster();
    MockAM second = nextMaster();
    cluster.mirror.snapshotNeeded();
    cluster.tickAndCheck();
    masters.nodeHeartbeat(second.getApplicationAttemptId(), 1, ContainerState.COMPLETE);
    cluster.rm.waitForState(second.getApplicationAttemptId(), RMAppAttemptState.FAILED);
    cluster.tickAndCheck();
    nextMaster();
    end(2);
    cluster.tickAndCheck();
    assertEquals(TASKS, known());
  }

  @Test
  void ofAnApplicationThatDoesNotKeepThemNoneStays() throws Exception {
    start(Cluster.conf(), false);
    failMaster();
    cluster.tickAndCheck();
    assertEquals(0, known());
    nextMaster();
    assertEquals(1, known());
  }

  /** The RM's own list holds until the AM has its container. It is read when it changes, not in each review. */
  @Test
  void theNextMasterAvoidsTheNodeOnWhichOneFailed() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.setBoolean(YarnConfiguration.AM_SCHEDULING_NODE_BLACKLISTING_ENABLED, true);
    conf.setFloat(YarnConfiguration.AM_SCHEDULING_NODE_BLACKLISTING_DISABLE_THRESHOLD, 0.6f);
    settings = new MirrorSettings(1 << 20, Cluster.NEVER_MS, 0, 0);
    start(conf, true);
    cluster.rm.registerNode("n2:1234", 16 * 1024, 16);
    MockNM third = cluster.rm.registerNode("n3:1234", 16 * 1024, 16);
    failMaster();
    cluster.tickAndCheck();
    assertEquals(Collections.singleton("n0"), blacklist());
    FiCaSchedulerApp next = cluster.scheduler.getApplicationAttempt(app.getCurrentAppAttempt().getAppAttemptId());
    next.getAppSchedulingInfo()
        .updatePlacesBlacklistedBySystem(Collections.singletonList("n2"), Collections.emptyList());
    cluster.tickAndCheck();
    assertEquals(Collections.singleton("n0"), blacklist(), "a review asks for all names of the cluster");
    cluster.scheduler.journal.asksChanged(app.getApplicationId(), true);
    cluster.tickAndCheck();
    assertEquals(new HashSet<>(Arrays.asList("n0", "n2")), blacklist());
    MockRM.launchAM(app, cluster.rm, third);
    cluster.tickAndCheck();
    assertEquals(Collections.emptySet(), blacklist());
  }

  private Set<String> blacklist() {
    return cluster.model.applications.values().iterator().next().blacklist;
  }
}

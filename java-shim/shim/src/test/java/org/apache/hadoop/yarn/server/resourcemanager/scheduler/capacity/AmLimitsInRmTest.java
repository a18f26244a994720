// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * While an engine schedules, a leaf's AM limit follows what its siblings leave it: a queue with 10 % of the cluster, a
 * maximum of 100 % and an AM share of 0.1 has 1 % of the cluster for AMs when its siblings use their 90 %.
 */
@Timeout(300)
class AmLimitsInRmTest {
  private static final int GB = 1024;
  private static final String QUEUES = "yarn.scheduler.capacity.root.";

  private final YarnConfiguration conf = TestRms.withEngine("off");
  private MockRM rm;
  private MockNM node;
  private MockAM large;
  private Container filling;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private TreadleScheduler scheduler() {
    return TestRms.scheduler(rm);
  }

  private LeafQueue small() {
    return (LeafQueue) scheduler().getQueue("small");
  }

  private long amLimitGb() {
    return small().getQueueResourceUsage().getAMLimit().getMemorySize() / GB;
  }

  private void start(boolean legacy) throws Exception {
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_MB, 100 * GB);
    conf.setBoolean("yarn.scheduler.capacity.legacy-queue-mode.enabled", legacy);
    conf.set(QUEUES + "queues", "small,large");
    conf.set(QUEUES + "small.capacity", "10");
    conf.set(QUEUES + "large.capacity", "90");
    for (String queue : new String[] {"small", "large"}) {
      conf.set(QUEUES + queue + ".maximum-capacity", "100");
      conf.set(QUEUES + queue + ".maximum-am-resource-percent", "0.1");
      conf.set(QUEUES + queue + ".user-limit-factor", "10");
    }
    rm = TestRms.start(conf, ScriptedEngine::proposeAll);
    node = rm.registerNode("h1:1234", 100 * GB, 100);
    TestRms.launch(rm, submit("small"), node);
    large = TestRms.launch(rm, submit("large"), node);
    conf.set(ShimConfig.MODE, "enforce");
    TestRms.refresh(rm, conf);
    TestRms.await(rm, "LeaseHeld", 1);
  }

  private RMApp submit(String queue) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder.createWithMemory(GB, rm)
        .withQueue(queue).withUnmanagedAM(false).withWaitForAppAcceptedState(false).build());
    rm.drainEvents();
    return app;
  }

  /** The other queue takes its 90 % of the cluster. */
  private void fill() throws Exception {
    large.allocate("*", 89 * GB, 1, Collections.emptyList());
    List<Container> given = new ArrayList<>();
    Await.until("the engine has filled the cluster", () -> {
      given.addAll(large.schedule().getAllocatedContainers());
      return !given.isEmpty();
    });
    filling = given.get(0);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void limitFollowsTheSiblings(boolean legacy) throws Exception {
    start(legacy);
    Await.until("nearly all of the cluster is the queue's", () -> amLimitGb() == 10);
    fill();
    Await.until("the AM limit is 1 % of the cluster", () -> amLimitGb() == 1);
    RMApp waiting = submit("small");
    assertEquals(1, small().getNumActiveApplications(), "the queue's share of AMs is used");
    assertEquals(1, small().getNumPendingApplications());
    large.allocate("*", GB, 0, Collections.singletonList(filling.getId()));
    Await.until("the AM limit is 10 % of the cluster", () -> amLimitGb() == 10);
    // the queue looks at those that wait a moment after its limit has changed
    Await.until("another one may run, though nothing else happened in the queue",
        () -> small().getNumActiveApplications() == 2);
    TestRms.launchByEngine(rm, waiting);
    assertEquals("", TestRms.text(rm, "LastError"));
  }
}

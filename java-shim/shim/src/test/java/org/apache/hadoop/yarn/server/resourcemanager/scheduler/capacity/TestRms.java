// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;

/** Small ResourceManagers for tests. */
final class TestRms {
  private TestRms() {
  }

  static YarnConfiguration configuration(String mode) {
    CapacitySchedulerConfiguration queues = new CapacitySchedulerConfiguration();
    YarnConfiguration conf = new YarnConfiguration(queues);
    conf.setClass(YarnConfiguration.RM_SCHEDULER, TreadleScheduler.class, ResourceScheduler.class);
    conf.set(ShimConfig.MODE, mode);
    return conf;
  }

  /**
   * One whose engine answers as {@link ScriptedEngine} is scripted. Its lease is so long that it does not run out
   * because the machine is busy, and so short that an engine is asked again within seconds when nothing happens.
   */
  static YarnConfiguration withEngine(String mode) {
    YarnConfiguration conf = configuration(mode);
    conf.set(ShimConfig.ENGINE_CLASS, ScriptedEngine.class.getName());
    conf.set(ShimConfig.NODE_STALE_MS, "3600000");
    conf.set(ShimConfig.LEASE_MS, "10000");
    return conf;
  }

  /** Starts one whose engine answers so from the first frame on. */
  static MockRM start(YarnConfiguration conf, ScriptedEngine.Script script) {
    ScriptedEngine.reset(script);
    MockRM rm = new MockRM(conf);
    rm.start();
    return rm;
  }

  /** Stops one in which nothing of ours may have failed. */
  static void stop(MockRM rm) {
    rm.stop();
    assertEquals(0L, scheduler(rm).shim().metrics().numbers().get("CaughtExceptions"));
  }

  static TreadleScheduler scheduler(MockRM rm) {
    return (TreadleScheduler) rm.getResourceScheduler();
  }

  static long number(MockRM rm, String name) {
    return scheduler(rm).shim().metrics().numbers().get(name);
  }

  static String text(MockRM rm, String name) {
    return scheduler(rm).shim().metrics().text(name);
  }

  /** Waits until a number is so: most are counted by another thread, a moment after what they count can be seen. */
  static void await(MockRM rm, String name, long value) throws Exception {
    Await.until(name + " is " + value, () -> number(rm, name) == value);
  }

  static int containers(MockRM rm, MockNM node) {
    return scheduler(rm).getNode(node.getNodeId()).getNumContainers();
  }

  /** Heartbeats of a node until something holds. */
  static void heartbeatUntil(MockNM node, String what, Callable<Boolean> condition) throws Exception {
    Await.until(what, () -> {
      node.nodeHeartbeat(true);
      return condition.call();
    });
  }

  /** Whether an application's AM has its container. */
  static boolean isAllocated(RMApp app) {
    return app.getCurrentAppAttempt() != null
        && app.getCurrentAppAttempt().getState() == RMAppAttemptState.ALLOCATED;
  }

  static RMApp submit(MockRM rm, int memoryMb) throws Exception {
    return MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(memoryMb, 1), rm).withQueue("default").build());
  }

  static MockAM launch(MockRM rm, RMApp app, MockNM node) throws Exception {
    return MockRM.launchAndRegisterAM(app, rm, node);
  }

  /**
   * Submits an application whose AM an engine places. MockRM's own way waits for a state before that, which with an
   * engine may have passed by the time it looks.
   */
  static MockAM launchByEngine(MockRM rm, int memoryMb) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(memoryMb, 1), rm).withQueue("default")
        .withWaitForAppAcceptedState(false).build());
    return launchByEngine(rm, app);
  }

  /** Waits until an engine has placed an application's AM, and registers it. */
  static MockAM launchByEngine(MockRM rm, RMApp app) throws Exception {
    Await.until("the AM has its container", () -> isAllocated(app));
    ApplicationAttemptId attempt = app.getCurrentAppAttempt().getAppAttemptId();
    MockAM am = rm.sendAMLaunched(attempt);
    rm.waitForState(attempt, RMAppAttemptState.LAUNCHED);
    am.registerAppAttempt();
    rm.waitForState(app.getApplicationId(), RMAppState.RUNNING);
    return am;
  }

  static void refresh(MockRM rm, Configuration conf) throws Exception {
    rm.getResourceScheduler().reinitialize(conf, rm.getRMContext());
  }
}

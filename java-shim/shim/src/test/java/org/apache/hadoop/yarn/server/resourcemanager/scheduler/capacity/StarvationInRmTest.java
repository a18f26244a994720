// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.cluster.Answers;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.BitSet;
import java.util.Collections;
import java.util.concurrent.Callable;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A real ResourceManager and an engine that answers in time and places nothing, or nothing that may be placed. */
@Timeout(300)
class StarvationInRmTest {
  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private MockRM rm;
  private MockNM node;

  @BeforeEach
  void settings() {
    conf.set(ShimConfig.STARVATION_MS, "500");
    conf.setLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS, 100);
    conf.setFloat(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, 1);
  }

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private void start(ScriptedEngine.Script script) throws Exception {
    rm = TestRms.start(conf, script);
    node = rm.registerNode("h1:1234", Resource.newInstance(128 << 10, 256));
    TestRms.await(rm, "LeaseHeld", 1);
  }

  private long number(String name) {
    return TestRms.number(rm, name);
  }

  private String text(String name) {
    return TestRms.text(rm, name);
  }

  private int containers() {
    return TestRms.containers(rm, node);
  }

  private void heartbeatUntil(String what, Callable<Boolean> condition) throws Exception {
    TestRms.heartbeatUntil(node, what, condition);
  }

  private static byte[] holding(Frame frame) {
    BitSet first = new BitSet();
    first.set(0);
    return Answers.encode(16, frame.epoch(), frame.sequence(), 1, "", first, new BitSet());
  }

  private void frames(int more) throws Exception {
    int before = ScriptedEngine.frames().size();
    heartbeatUntil("some frames have gone by", () -> ScriptedEngine.frames().size() >= before + more);
  }

  /** The proof P5-GuardRm: whatever flows beside it, an application whose ask could be placed gets a container. */
  @Test
  void anApplicationThatTheEngineNeglectsIsServed() throws Exception {
    start(ScriptedEngine::proposeAll);
    MockAM other = TestRms.launchByEngine(rm, 1024);
    ScriptedEngine.script(frame -> frame.limit() < 4 ? frame.answer() : frame.answer(0, 1, 0, 0, 0, 0, 0, 2, 0));
    other.allocate("*", 1024, 100, Collections.emptyList());
    heartbeatUntil("the engine places", () -> number("Committed") > 10);
    RMApp neglected = TestRms.submit(rm, 1024);
    heartbeatUntil("the shim has placed the AM", () -> TestRms.isAllocated(neglected));
    TestRms.await(rm, "PlacedForNeglected", 1);
    assertEquals(0, number("PlacedByCapacityScheduler"));
    assertEquals(1, number("LeaseHeld"));
  }

  @Test
  void anEngineThatPlacesNothingLosesTheLease() throws Exception {
    conf.set(ShimConfig.STARVATION_MS, "1000");
    start(Frame::answer);
    RMApp one = TestRms.submit(rm, 1024);
    RMApp two = TestRms.submit(rm, 1024);
    Await.until("the engine has lost the lease and it is said why", () -> number("LeaseHeld") == 0
        && number("Schedules") == 0 && number("Stalled") == 1 && text("Refusal").contains("places nothing")
        && text("LastError").contains("places nothing"));
    assertEquals(2, number("PlacedForNeglected"));
    MockAM am = TestRms.launchByEngine(rm, one);
    TestRms.launchByEngine(rm, two);
    am.allocate("*", 1024, 2, Collections.emptyList());
    heartbeatUntil("the rest goes natively", () -> containers() == 4);
  }

  @Test
  void aRefreshGivesTheEngineAnotherChance() throws Exception {
    conf.set(ShimConfig.STARVATION_MS, "1000");
    start(Frame::answer);
    RMApp app = TestRms.submit(rm, 1024);
    TestRms.submit(rm, 1024);
    heartbeatUntil("the engine has lost the lease", () -> number("Stalled") == 1 && number("LeaseHeld") == 0);
    ScriptedEngine.script(ScriptedEngine::proposeAll);
    TestRms.refresh(rm, conf);
    Await.until("it has the lease again", () -> number("LeaseHeld") == 1 && number("Stalled") == 0);
    assertEquals("", text("Refusal"));
    MockAM am = TestRms.launchByEngine(rm, app);
    am.allocate("*", 1024, 2, Collections.emptyList());
    heartbeatUntil("the engine places", () -> containers() == 4 && number("Committed") == 2);
  }

  @Test
  void withoutABoundItStarvesTheCluster() throws Exception {
    conf.set(ShimConfig.STARVATION_MS, "0");
    start(Frame::answer);
    TestRms.submit(rm, 1024);
    frames(12);
    assertEquals(0, containers());
    assertEquals(1, number("LeaseHeld"));
  }

  @Test
  void whatIsHeldOnPurposeWaitsUntilItIsNotHeld() throws Exception {
    start(StarvationInRmTest::holding);
    RMApp app = TestRms.submit(rm, 1024);
    frames(12);
    assertEquals(0, containers());
    ScriptedEngine.script(Frame::answer);
    heartbeatUntil("it waits no longer", () -> TestRms.isAllocated(app));
    TestRms.await(rm, "PlacedForNeglected", 1);
  }

  @Test
  void anAskThatNoNodeTakesIsNotNeglected() throws Exception {
    start(ScriptedEngine::proposeAll);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    am.allocate("*", 8192, 16, Collections.emptyList());
    heartbeatUntil("the node is full", () -> containers() == 16);
    ScriptedEngine.script(Frame::answer);
    frames(12);
    assertEquals(0, number("PlacedForNeglected"));
    assertEquals(1, number("LeaseHeld"));
  }
}

// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.treadle.shim.Await;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
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
class IdleGuardInRmTest {
  private static final String IDLE_GUARD_MS = ShimConfig.PREFIX + "idle-guard-ms";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private MockRM rm;
  private MockNM node;

  @BeforeEach
  void settings() {
    conf.set(IDLE_GUARD_MS, "400");
    conf.setLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS, 100);
    conf.setFloat(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, 1);
  }

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private void start(ScriptedEngine.Script script) throws Exception {
    rm = TestRms.start(conf, script);
    node = rm.registerNode("h1:1234", Resource.newInstance(4096, 16));
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

  private static byte[] waiting(Frame frame, String what) {
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, "{\"waits_for\": \"" + what + "\"}");
  }

  @Test
  void anEngineThatPlacesNothingLosesTheLease() throws Exception {
    start(Frame::answer);
    RMApp app = TestRms.submit(rm, 1024);
    heartbeatUntil("the stock scheduler has placed the AM", () -> TestRms.isAllocated(app));
    Await.until("the engine has lost the lease and it is said why", () -> number("LeaseHeld") == 0
        && number("Schedules") == 0 && number("Stalled") == 1 && text("Refusal").contains("places nothing")
        && text("LastError").contains("places nothing"));
    TestRms.await(rm, "PlacedNatively", 1);
    MockAM am = TestRms.launchByEngine(rm, app);
    am.allocate("*", 1024, 2, Collections.emptyList());
    heartbeatUntil("the rest goes natively as well", () -> containers() == 3);
  }

  @Test
  void aRefreshGivesTheEngineAnotherChance() throws Exception {
    start(Frame::answer);
    RMApp app = TestRms.submit(rm, 1024);
    heartbeatUntil("the engine has lost the lease", () -> number("Stalled") == 1 && number("LeaseHeld") == 0);
    ScriptedEngine.script(ScriptedEngine::proposeAll);
    TestRms.refresh(rm, conf);
    Await.until("it has the lease again", () -> number("LeaseHeld") == 1 && number("Stalled") == 0);
    assertEquals("", text("Refusal"));
    MockAM am = TestRms.launchByEngine(rm, app);
    am.allocate("*", 1024, 2, Collections.emptyList());
    heartbeatUntil("the engine places", () -> containers() == 3 && number("Committed") == 2);
  }

  @Test
  void withoutTheGuardItStarvesTheCluster() throws Exception {
    conf.set(IDLE_GUARD_MS, "0");
    start(Frame::answer);
    TestRms.submit(rm, 1024);
    int before = ScriptedEngine.frames().size();
    heartbeatUntil("some frames have gone by", () -> ScriptedEngine.frames().size() >= before + 12);
    assertEquals(0, containers());
    assertEquals(1, number("LeaseHeld"));
  }

  @Test
  void anEngineThatWaitsOnPurposeKeepsTheLease() throws Exception {
    start(frame -> waiting(frame, "pilots"));
    TestRms.submit(rm, 1024);
    int before = ScriptedEngine.frames().size();
    heartbeatUntil("some frames have gone by", () -> ScriptedEngine.frames().size() >= before + 12);
    assertEquals(0, containers());
    assertEquals(0, number("IdleRounds"));
    assertEquals("pilots", text("WaitsFor"));
    ScriptedEngine.script(frame -> waiting(frame, ""));
    heartbeatUntil("it waits no longer", () -> number("Stalled") == 1);
  }

  @Test
  void anEngineWithNothingToPlaceKeepsTheLease() throws Exception {
    start(ScriptedEngine::proposeAll);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    am.allocate("*", 1024, 9, Collections.emptyList());
    heartbeatUntil("the node is full", () -> containers() == 4);
    ScriptedEngine.script(Frame::answer);
    int before = ScriptedEngine.frames().size();
    heartbeatUntil("some frames have gone by", () -> ScriptedEngine.frames().size() >= before + 12);
    assertEquals(0, number("IdleRounds"));
    assertEquals(1, number("LeaseHeld"));
  }

  @Test
  void anAskThatNoNodeTakesOpensNothing() throws Exception {
    start(ScriptedEngine::proposeAll);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    am.allocate("*", 4096, 1, Collections.emptyList());
    int before = ScriptedEngine.frames().size();
    heartbeatUntil("some frames have gone by", () -> ScriptedEngine.frames().size() >= before + 12);
    assertEquals(0, number("IdleRounds"));
    assertEquals(1, number("LeaseHeld"));
    assertFalse(text("Refusal").contains("places nothing"));
  }
}

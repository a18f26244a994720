// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.Collections;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a sidecar with several engines behind it says with the flags of its answers, and shows of them. */
@Timeout(120)
class AnswerFlagsInRmTest {
  private static final int AGAIN = 2;
  private static final int UNSERVED = 8;
  /** At 10 ms from one to the next they take longer than a lease lasts. */
  private static final int FRAMES = 200;

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private MockRM rm;
  private MockNM node;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private void start(ScriptedEngine.Script script) {
    conf.set(ShimConfig.STARVATION_MS, "0");
    conf.setFloat(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, 1);
    rm = TestRms.start(conf, script);
  }

  private static byte[] flagged(Frame frame, int flags, int... proposals) {
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), flags, "", proposals);
  }

  private void frames(int more) throws Exception {
    int before = ScriptedEngine.frames().size();
    TestRms.heartbeatUntil(node, more + " more frames", () -> ScriptedEngine.frames().size() >= before + more);
  }

  @Test
  void answersThatLeaveSomebodyUnservedAreCommittedAndDoNotKeepTheLease() throws Exception {
    conf.set(ShimConfig.LEASE_MS, "1000");
    conf.set(ShimConfig.TICK_MS, "10");
    start(frame -> flagged(frame, UNSERVED | AGAIN));
    node = rm.registerNode("h1:1234", 8192);
    frames(FRAMES);
    assertEquals(0, TestRms.number(rm, "LeaseFlips"), "such an answer does not take it");
    RMApp app = TestRms.submit(rm, 1024);
    MockAM am = TestRms.launch(rm, app, node);
    assertEquals(0, TestRms.number(rm, "Committed"));
    ScriptedEngine.script(frame -> flagged(frame, AGAIN));
    TestRms.await(rm, "LeaseHeld", 1);
    long before = TestRms.number(rm, "PlacedByCapacityScheduler");
    am.allocate("*", 1024, 1, Collections.emptyList());
    ScriptedEngine.script(frame -> frame.limit() < 2
        ? frame.answer()
        : flagged(frame, UNSERVED | AGAIN, 0, 0, 0, 0, 1, 0));
    TestRms.heartbeatUntil(node, "it is committed, or the lease has run out",
        () -> TestRms.number(rm, "LeaseHeld") == 0);
    assertEquals(1, TestRms.number(rm, "Committed"), "the lease was held for a while");
    assertEquals(before, TestRms.number(rm, "PlacedByCapacityScheduler"));
    am.allocate("*", 1024, 1, Collections.emptyList());
    TestRms.heartbeatUntil(node, "the stock scheduler places",
        () -> TestRms.number(rm, "PlacedByCapacityScheduler") == before + 1);
  }

  @Test
  void whatIsSaidOfEnginesIsShown() throws Exception {
    String engines = "{\"engines\":{\"a\":{\"alive\":true}}}";
    start(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, "{\"engines\": " + engines + "}"));
    Await.until("it is shown", () -> TestRms.text(rm, "Engines").equals(engines));
    assertTrue(TestRms.text(rm, "LastError").isEmpty());
  }
}

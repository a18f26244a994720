// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.Shim;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.commit.TreadleCommitRequest;
import io.treadle.shim.link.Link;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.io.IOException;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

/** What a real ResourceManager shows and logs of who schedules, and why. */
@Timeout(300)
class StatesInRmTest {
  private static final String MULTI_NODE = "yarn.scheduler.capacity.multi-node-placement-enabled";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private final LogCapturer linkLog = LogCapturer.captureLogs(LoggerFactory.getLogger(Link.class));
  private final LogCapturer shimLog = LogCapturer.captureLogs(LoggerFactory.getLogger(Shim.class));
  private MockRM rm;
  private MockNM node;

  /** Every commit for Treadle ends in an exception. */
  public static final class FailingScheduler extends TreadleScheduler {
    @Override
    @SuppressWarnings("rawtypes")
    public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
      if (request instanceof TreadleCommitRequest) {
        throw new IllegalStateException("a commit that fails");
      }
      return super.tryCommit(cluster, request, updatePending);
    }
  }

  @BeforeEach
  void settings() {
    GenericTestUtils.setLogLevel(LoggerFactory.getLogger(Link.class), Level.INFO);
    GenericTestUtils.setLogLevel(LoggerFactory.getLogger(Shim.class), Level.INFO);
  }

  @AfterEach
  void stop() {
    linkLog.stopCapturing();
    shimLog.stopCapturing();
    TestRms.stop(rm);
  }

  private void start(ScriptedEngine.Script script) throws Exception {
    rm = TestRms.start(conf, script);
    node = rm.registerNode("h1:1234", 16_384);
  }

  private long number(String name) {
    return TestRms.number(rm, name);
  }

  private String text(String name) {
    return TestRms.text(rm, name);
  }

  private void awaitSchedules(long schedules) throws Exception {
    TestRms.await(rm, "Schedules", schedules);
  }

  private void awaitLine(LogCapturer log, String line) throws Exception {
    Await.until("the log has: " + line, () -> log.getOutput().contains(line));
  }

  private static byte[] named(Frame frame, String policy) {
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, "{\"policy\": \"" + policy + "\"}");
  }

  @Test
  void anErrorHasATimeAndGoesWhenItIsMended() throws Exception {
    start(frame -> {
      throw new IOException("gone");
    });
    Await.until("the error is shown", () -> text("LastError").equals("gone"));
    assertTrue(text("LastErrorTime").endsWith("Z"), text("LastErrorTime"));
    ScriptedEngine.script(Frame::answer);
    awaitSchedules(1);
    assertEquals("", text("LastError"));
    assertEquals("", text("LastErrorTime"));
    ScriptedEngine.script(frame -> ScriptedEngine.answer(
        frame.epoch(), frame.sequence(), 0, "{\"policy\": \"p\", \"error\": \"line 3: no\"}"));
    Await.until("the engine's error is shown", () -> text("LastError").equals("line 3: no"));
    ScriptedEngine.script(frame -> named(frame, "p"));
    Await.until("it is mended", () -> text("LastError").isEmpty());
  }

  @Test
  void oneNumberSaysWhetherTreadleSchedules() throws Exception {
    start(Frame::answer);
    awaitSchedules(1);
    conf.setBoolean(MULTI_NODE, true);
    TestRms.refresh(rm, conf);
    awaitSchedules(0);
    assertEquals(1, number("LeaseHeld"));
    Await.until("it says why", () -> text("Refusal").contains(MULTI_NODE));
    conf.setBoolean(MULTI_NODE, false);
    TestRms.refresh(rm, conf);
    awaitSchedules(1);
    ScriptedEngine.script(frame -> {
      throw new IOException("gone");
    });
    awaitSchedules(0);
    assertEquals("", text("Refusal"));
    ScriptedEngine.script(Frame::answer);
    awaitSchedules(1);
    conf.set(ShimConfig.MODE, "observe_only");
    TestRms.refresh(rm, conf);
    awaitSchedules(0);
  }

  @Test
  void whatIsOffHasNoTrouble() throws Exception {
    conf.setBoolean(MULTI_NODE, true);
    start(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0,
        "{\"policy\": \"p\", \"error\": \"line 3: no\", \"waits_for\": \"pilots\"}"));
    Await.until("it says why", () -> text("Refusal").contains(MULTI_NODE) && text("LastError").equals("line 3: no")
        && text("WaitsFor").equals("pilots"));
    ScriptedEngine.script(frame -> {
      throw new IOException("gone");
    });
    Await.until("the error is shown", () -> text("LastError").equals("gone"));
    conf.set(ShimConfig.MODE, "off");
    TestRms.refresh(rm, conf);
    Await.until("nothing is wrong", () -> text("LastError").isEmpty() && text("Refusal").isEmpty()
        && text("WaitsFor").isEmpty());
  }

  @Test
  void eachChangeIsALineInTheLog() throws Exception {
    start(frame -> named(frame, "first"));
    awaitLine(shimLog, "Treadle's mode is enforce");
    awaitLine(linkLog, "Treadle's policy is first");
    awaitLine(linkLog, "holds the lease and schedules");
    ScriptedEngine.script(frame -> named(frame, "second"));
    awaitLine(linkLog, "Treadle's policy is second, it was first");
    conf.setBoolean(MULTI_NODE, true);
    TestRms.refresh(rm, conf);
    awaitLine(linkLog, "Treadle does not schedule, the CapacityScheduler does: multi-node placement");
    conf.setBoolean(MULTI_NODE, false);
    conf.set(ShimConfig.MODE, "observe_only");
    awaitLine(linkLog, "holds the lease and is observed");
    linkLog.clearOutput();
    TestRms.refresh(rm, conf);
    awaitLine(linkLog, "has lost the lease, the CapacityScheduler schedules: mode or lease-ms changed");
    awaitLine(linkLog, "Treadle can schedule again");
    awaitLine(shimLog, "Treadle's mode is observe_only, it was enforce");
    awaitLine(linkLog, "holds the lease and is observed");
    ScriptedEngine.script(frame -> {
      throw new IOException("gone");
    });
    awaitLine(linkLog, "has lost the lease, the CapacityScheduler schedules: gone");
  }

  @Test
  void whatTheEngineWarnsOfIsALineInTheLog() throws Exception {
    start(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0,
        "{\"policy\": \"p\", \"warnings\": [\"the tree names root.bb\"]}"));
    awaitLine(linkLog, "Treadle's engine: the tree names root.bb");
  }

  @Test
  void anAnswerOfNothingButInternalErrorsCostsTheLease() throws Exception {
    conf.setClass(YarnConfiguration.RM_SCHEDULER, FailingScheduler.class, ResourceScheduler.class);
    start(ScriptedEngine::proposeTheFirst);
    awaitSchedules(1);
    RMApp app = TestRms.submit(rm, 1024);
    Await.until("the failure is reported",
        () -> text("LastError").matches("in the ResourceManager, not in the engine: .*a commit that fails"));
    assertTrue(number("RejectedInternalError") > 0);
    assertTrue(number("LinkFailures") > 0);
    TestRms.heartbeatUntil(node, "the stock scheduler has placed the AM", () -> TestRms.isAllocated(app));
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
  }

  @Test
  void settingsWithoutEffectAreShown() throws Exception {
    conf.set(ShimConfig.PREFIX + "leasems", "5000");
    start(Frame::answer);
    assertTrue(text("IgnoredSettings").contains("leasems"), text("IgnoredSettings"));
    conf.unset(ShimConfig.PREFIX + "leasems");
    conf.set(ShimConfig.CONFIG_FILE, "/etc/other.yaml");
    TestRms.refresh(rm, conf);
    assertFalse(text("IgnoredSettings").contains("leasems"), text("IgnoredSettings"));
    assertTrue(text("IgnoredSettings").contains("config.file is now '/etc/other.yaml'"), text("IgnoredSettings"));
    assertTrue(shimLog.getOutput().contains("config.file is now '/etc/other.yaml'"));
  }
}

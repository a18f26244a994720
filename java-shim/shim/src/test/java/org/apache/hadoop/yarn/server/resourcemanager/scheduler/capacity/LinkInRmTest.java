// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import io.treadle.shim.wire.FrameWriter;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A real ResourceManager, its scheduler's link, and an engine that answers as a test says. */
@Timeout(300)
class LinkInRmTest {
  private static final String MULTI_NODE = "yarn.scheduler.capacity.multi-node-placement-enabled";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private MockRM rm;
  private MockNM node;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
    assertEquals(0, ScriptedEngine.open(), "engines left open");
  }

  private void start(ScriptedEngine.Script script) throws Exception {
    rm = TestRms.start(conf, script);
    node = rm.registerNode("h1:1234", 16_384);
  }

  private TreadleScheduler scheduler() {
    return TestRms.scheduler(rm);
  }

  private long number(String name) {
    return TestRms.number(rm, name);
  }

  private void awaitLease(long held) throws Exception {
    TestRms.await(rm, "LeaseHeld", held);
  }

  private void frames(int more) throws Exception {
    int before = ScriptedEngine.frames().size();
    Await.until(more + " more frames", () -> {
      node.nodeHeartbeat(true);
      return ScriptedEngine.frames().size() >= before + more;
    });
  }

  /**
   * With ticks of 1 ms sixteen proposals take longer: the engine is asked for the next ones while these are committed.
   */
  @ParameterizedTest
  @ValueSource(strings = {"10", "1"})
  void everyContainerIsPlacedByTheEngine(String tickMs) throws Exception {
    conf.set(ShimConfig.TICK_MS, tickMs);
    start(ScriptedEngine::proposeAll);
    awaitLease(1);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    am.allocate("*", 1024, 3, Collections.emptyList());
    TestRms.heartbeatUntil(node, "3 containers and the AM are there", () -> TestRms.containers(rm, node) == 4);
    assertEquals(3, am.allocate(Collections.emptyList(), Collections.emptyList()).getAllocatedContainers().size());
    Await.until("they are counted", () -> number("Committed") == 4);
    assertEquals(0, number("PlacedByCapacityScheduler"));
    String placements = "{\"" + am.getApplicationAttemptId().getApplicationId() + "\":{\"treadle\":4,\"native\":0}}";
    Await.until("they are counted by application",
        () -> scheduler().shim().metrics().getPlacements().equals(placements));
    assertEquals(1, number("LeaseFlips"));
    assertEquals(0, number("LinkFailures"));
  }

  /** Judging takes the scheduler's read lock, and a backlog makes answers long: five of these a second are enough. */
  @Test
  void fewAnswersThatTakeLongAreObservedHoweverMuchHappens() throws Exception {
    conf.set(ShimConfig.MODE, "observe_only");
    start(frame -> {
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(10);
      while (System.nanoTime() - end < 0) {
        Thread.yield();
      }
      return ScriptedEngine.proposeAll(frame);
    });
    awaitLease(1);
    RMApp app = TestRms.submit(rm, 1024);
    MockAM am = TestRms.launch(rm, app, node);
    int before = ScriptedEngine.frames().size();
    long begin = System.nanoTime();
    int[] asks = {0};
    Await.until("12 more frames", () -> {
      asks[0] = asks[0] % 50 + 1;
      am.allocate("*", 1024, asks[0], Collections.emptyList());
      return ScriptedEngine.frames().size() >= before + 12;
    });
    // the clock last: what comes between the two makes the bound wider
    int frames = ScriptedEngine.frames().size() - before;
    long elapsedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
    assertTrue(frames <= elapsedMs / 200 + 2, frames + " frames in " + elapsedMs + " ms");
  }

  @Test
  void theGateIsClosedWhileTheEngineHoldsTheLease() throws Exception {
    start(Frame::answer);
    awaitLease(1);
    RMApp app = TestRms.submit(rm, 1024);
    for (int i = 0; i < 10; i++) {
      node.nodeHeartbeat(true);
      rm.drainEvents();
    }
    assertEquals(0, TestRms.containers(rm, node));
    ScriptedEngine.script(frame -> {
      throw new IOException("gone");
    });
    awaitLease(0);
    TestRms.launch(rm, app, node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    Await.until("it says why", () -> TestRms.text(rm, "LastError").equals("gone"));
  }

  /** Nothing of another version is read: an update of only the jar or only the wheel is reported. */
  @Test
  void aSidecarOfAnotherVersionIsRefusedAndTheStockSchedulerCarriesOn() throws Exception {
    refusedWhile("the sidecar speaks version 1 of the wire, the shim version " + FrameWriter.VERSION
        + ": give both the same release of Treadle",
        frame -> {
          byte[] answer = ScriptedEngine.proposeAll(frame);
          answer[4] = 1;
          return answer;
        });
  }

  private void refusedWhile(String why, ScriptedEngine.Script script) throws Exception {
    start(script);
    Await.until("it says why", () -> TestRms.text(rm, "LastError").contains(why));
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    assertEquals(0, number("LeaseFlips"));
    assertEquals(0, number("Committed"));
  }

  @Test
  void theGateOpensByItselfWhenTheEngineHangs() throws Exception {
    conf.set(ShimConfig.LEASE_MS, "1000");
    start(Frame::answer);
    awaitLease(1);
    CountDownLatch over = new CountDownLatch(1);
    AtomicLong asked = new AtomicLong(Long.MAX_VALUE);
    ScriptedEngine.script(frame -> {
      asked.compareAndSet(Long.MAX_VALUE, System.nanoTime());
      try {
        over.await();
      } catch (InterruptedException e) {
        throw new IOException(e);
      }
      return frame.answer();
    });
    Await.until("the engine is asked", () -> asked.get() != Long.MAX_VALUE);
    long failures = number("LinkFailures");
    try {
      awaitLease(0);
      // the link still waits: nobody but the clock has opened the gate
      assertEquals(failures, number("LinkFailures"));
      TestRms.launch(rm, TestRms.submit(rm, 1024), node);
      TestRms.await(rm, "PlacedByCapacityScheduler", 1);
      Await.until("the answer is late",
          () -> System.nanoTime() - asked.get() > TimeUnit.MILLISECONDS.toNanos(1100));
    } finally {
      over.countDown();
    }
    Await.until("the late answer counts as a failure", () -> number("LinkFailures") > failures);
    awaitLease(1);
    assertTrue(ScriptedEngine.frames().stream().filter(Frame::snapshot).count() >= 2);
  }

  @ParameterizedTest
  @ValueSource(strings = {"empty", "null", "garbage", "epoch", "sequence", "too many", "half", "exception", "error",
      "status"})
  void aBadAnswerCostsTheLeaseUntilAGoodOneToASnapshot(String kind) throws Exception {
    start(Frame::answer);
    awaitLease(1);
    frames(2);
    long epoch = ScriptedEngine.frames().get(0).epoch();
    ScriptedEngine.script(frame -> bad(kind, frame));
    Await.until("three conversations have failed", () -> number("LinkFailures") >= 3);
    awaitLease(0);
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    assertFalse(TestRms.text(rm, "LastError").isEmpty());
    int before = ScriptedEngine.frames().size();
    ScriptedEngine.script(Frame::answer);
    awaitLease(1);
    List<Frame> frames = ScriptedEngine.frames();
    Frame first = frames.subList(before - 1, frames.size()).stream().filter(Frame::snapshot).findFirst().get();
    assertTrue(first.epoch() > epoch);
    assertEquals(1, first.sequence());
  }

  private static byte[] bad(String kind, Frame frame) throws IOException {
    switch (kind) {
      case "empty":
        return new byte[0];
      case "null":
        return null;
      case "garbage":
        return new byte[1000];
      case "epoch":
        return ScriptedEngine.answer(frame.epoch() - 1, frame.sequence(), 0, "");
      case "sequence":
        return ScriptedEngine.answer(frame.epoch(), frame.sequence() + 1, 0, "");
      case "too many":
        return frame.answer(new int[3 * (frame.limit() + 1)]);
      case "half":
        return Arrays.copyOf(frame.answer(0, 0, 0), 47);
      case "exception":
        throw new IllegalStateException("on purpose");
      case "error":
        throw new StackOverflowError("on purpose");
      default:
        return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, "[1, 2");
    }
  }

  @Test
  void anEngineThatLostTrackGetsASnapshotInTheSameEpoch() throws Exception {
    start(Frame::answer);
    awaitLease(1);
    frames(1);
    ScriptedEngine.script(frame -> {
      ScriptedEngine.script(Frame::answer);
      return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 1, "");
    });
    Await.until("a second snapshot was sent",
        () -> ScriptedEngine.frames().stream().filter(Frame::snapshot).count() == 2);
    awaitLease(1);
    assertEquals(1, ScriptedEngine.frames().stream().map(Frame::epoch).distinct().count());
    assertEquals(0, number("LinkFailures"));
    assertEquals(1, number("LeaseFlips"));
  }

  @Test
  void anEngineThatNeverUnderstandsIsAFailure() throws Exception {
    start(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 1, ""));
    Await.until("the conversation has failed", () -> number("LinkFailures") >= 1);
    assertEquals(0, number("LeaseFlips"));
    assertTrue(TestRms.text(rm, "LastError").contains("asks for snapshots too often"));
  }

  /** In between it takes each snapshot, so that it is never lost twice in a row. */
  @Test
  void anEngineThatAsksForSnapshotsAgainAndAgainIsAFailure() throws Exception {
    start(frame -> frame.snapshot()
        ? frame.answer(0, 0, 0)
        : ScriptedEngine.answer(frame.epoch(), frame.sequence(), 1, ""));
    // the first answer of the next conversation mends it for a moment
    Await.until("the conversation has failed",
        () -> TestRms.text(rm, "LastError").contains("asks for snapshots too often"));
    assertEquals(6, ScriptedEngine.frames().stream()
        .filter(frame -> frame.snapshot() && frame.epoch() == ScriptedEngine.frames().get(0).epoch()).count());
  }

  @Test
  void observingCommitsNothingAndLeavesTheGateOpen() throws Exception {
    conf.set(ShimConfig.MODE, "observe_only");
    start(ScriptedEngine::proposeAll);
    awaitLease(1);
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    frames(2);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    assertEquals(0, number("Committed"));
    assertTrue(ScriptedEngine.frames().stream().allMatch(Frame::observe));
  }

  @Test
  void modesFollowARefresh() throws Exception {
    start(ScriptedEngine::proposeAll);
    awaitLease(1);
    conf.set(ShimConfig.MODE, "off");
    TestRms.refresh(rm, conf);
    awaitLease(0);
    Await.until("the engine is closed", () -> ScriptedEngine.open() == 0);
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    conf.set(ShimConfig.MODE, "observe_only");
    TestRms.refresh(rm, conf);
    awaitLease(1);
    frames(1);
    List<Frame> frames = ScriptedEngine.frames();
    assertTrue(frames.get(frames.size() - 1).observe());
    assertEquals(2, frames.get(frames.size() - 1).configuration());
    conf.set(ShimConfig.MODE, "enforce");
    TestRms.refresh(rm, conf);
    Await.until("frames are for committing", () -> !frames.get(frames.size() - 1).observe());
    awaitLease(1);
    TestRms.launchByEngine(rm, 1024);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    Await.until("the AM is counted", () -> number("Committed") == 1);
  }

  /** Another thread answers when the test lets it; until then the engine that is asked holds up the link. */
  private static byte[] answerAfter(CountDownLatch latch, Frame frame) throws IOException {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
    return ScriptedEngine.proposeAll(frame);
  }

  @Test
  void stockSchedulesFromTheSwitchToEnforceUntilTheFirstAnswerToCommit() throws Exception {
    conf.set(ShimConfig.MODE, "observe_only");
    conf.set(ShimConfig.LEASE_MS, "60000");
    conf.setFloat(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, 1);
    CountDownLatch observed = new CountDownLatch(1);
    CountDownLatch enforced = new CountDownLatch(1);
    start(Frame::answer);
    awaitLease(1);
    ScriptedEngine.script(frame -> answerAfter(frame.observe() ? observed : enforced, frame));
    try {
      int before = ScriptedEngine.frames().size();
      RMApp first = TestRms.submit(rm, 1024);
      Await.until("the engine is asked", () -> ScriptedEngine.frames().size() > before);
      conf.set(ShimConfig.MODE, "enforce");
      TestRms.refresh(rm, conf);
      TestRms.launch(rm, first, node);
      observed.countDown();
      Await.until("the engine is asked what to commit", () -> !lastFrame().observe());
      TestRms.launch(rm, TestRms.submit(rm, 1024), node);
      TestRms.await(rm, "PlacedByCapacityScheduler", 2);
    } finally {
      observed.countDown();
      enforced.countDown();
    }
    awaitLease(1);
    TestRms.launchByEngine(rm, 1024);
    TestRms.await(rm, "PlacedByCapacityScheduler", 2);
  }

  @Test
  void stockSchedulesFromTheEndOfARefusalUntilTheFirstAnswerToCommit() throws Exception {
    conf.set(ShimConfig.LEASE_MS, "60000");
    conf.setBoolean(MULTI_NODE, true);
    CountDownLatch enforced = new CountDownLatch(1);
    start(frame -> frame.observe() ? frame.answer() : answerAfter(enforced, frame));
    awaitLease(1);
    try {
      conf.setBoolean(MULTI_NODE, false);
      TestRms.refresh(rm, conf);
      Await.until("the engine is asked what to commit", () -> !lastFrame().observe());
      assertEquals(1, number("LeaseHeld"));
      TestRms.launch(rm, TestRms.submit(rm, 1024), node);
      TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    } finally {
      enforced.countDown();
    }
    Await.until("an answer is committed", () -> number("Proposals") > 0);
    TestRms.launchByEngine(rm, 1024);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
  }

  private static Frame lastFrame() {
    return ScriptedEngine.frames().get(ScriptedEngine.frames().size() - 1);
  }

  @Test
  void theStatusOfTheEngineIsShown() throws Exception {
    start(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0,
        "{\"policy\": \"capacity\", \"configuration\": 0, \"error\": \"line 3: no\", "
            + "\"warnings\": [\"w\", \"and more\"]}"));
    awaitLease(1);
    assertEquals("capacity", TestRms.text(rm, "Policy"));
    assertEquals("line 3: no", TestRms.text(rm, "LastError"));
    Await.until("what the engine warns of is shown", () -> "w; and more".equals(TestRms.text(rm, "Warnings")));
    ScriptedEngine.script(frame -> ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, "{\"policy\": \"p\"}"));
    Await.until("a warning goes with its cause", () -> "".equals(TestRms.text(rm, "Warnings")));
  }

  @Test
  void aWrongEngineClassIsSaidAndStockSchedules() throws Exception {
    conf.set(ShimConfig.ENGINE_CLASS, "no.such.Engine");
    start(Frame::answer);
    Await.until("the error is shown",
        () -> TestRms.text(rm, "LastError").contains("no.such.Engine"));
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
  }

  @Test
  void asynchronousSchedulingPassesTheGateToo() throws Exception {
    conf.setBoolean("yarn.scheduler.capacity.schedule-asynchronously.enable", true);
    conf.setInt("yarn.scheduler.capacity.schedule-asynchronously.maximum-threads", 2);
    start(ScriptedEngine::proposeAll);
    awaitLease(1);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    am.allocate("*", 1024, 3, Collections.<ContainerId>emptyList());
    Await.until("all are placed", () -> TestRms.containers(rm, node) == 4);
    Await.until("they are counted", () -> number("Committed") == 4);
    assertEquals(0, number("PlacedByCapacityScheduler"));
  }
}

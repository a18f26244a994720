// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.List;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** An engine whose share overrides the guarantees of queues, beside the preemption monitor that restores them. */
@Timeout(300)
class GuaranteesInRmTest {
  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private MockRM rm;

  @AfterEach
  void stop() {
    rm.stop();
    assertEquals(0, ScriptedEngine.open(), "engines left open");
  }

  private long number(String name) {
    return TestRms.number(rm, name);
  }

  private String text(String name) {
    return TestRms.text(rm, name);
  }

  /** Proposes all that could be asked for, and says whether guarantees are overridden. */
  private static byte[] answer(Frame frame, boolean overrides) {
    int[] triples = new int[frame.limit() < 16 ? 0 : 3 * 16];
    for (int i = 0; i < triples.length / 3; i++) {
      triples[3 * i] = i / 4;
      triples[3 * i + 1] = i % 4;
    }
    String status = "{\"policy\": \"p\", \"overrides_guarantees\": " + overrides + "}";
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, status, triples);
  }

  @Test
  void theMonitorKeepsSuchAPolicyFromCommittingUntilAnotherIsInUse() throws Exception {
    conf.setBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, true);
    rm = TestRms.start(conf, frame -> answer(frame, true));
    MockNM node = rm.registerNode("h1:1234", 16_384);
    Await.until("it is refused", () -> text("Refusal").contains(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS));
    assertTrue(text("Refusal").contains("policy.share.kind"));
    TestRms.launch(rm, TestRms.submit(rm, 1024), node);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
    assertEquals(0, number("Committed"));
    assertFalse(ScriptedEngine.frames().get(0).observe(), "nothing was known of the policy");
    Await.until("frames are to be observed", () -> {
      List<Frame> frames = ScriptedEngine.frames();
      return frames.get(frames.size() - 1).observe();
    });
    ScriptedEngine.script(frame -> answer(frame, false));
    Await.until("it may enforce", () -> {
      node.nodeHeartbeat(true);
      return text("Refusal").isEmpty();
    });
    TestRms.launchByEngine(rm, 1024);
    TestRms.await(rm, "Committed", 1);
    TestRms.await(rm, "PlacedByCapacityScheduler", 1);
  }
}

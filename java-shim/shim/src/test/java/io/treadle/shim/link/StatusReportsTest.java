// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.EngineView;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class StatusReportsTest {
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
  private final ShimMetrics metrics = new ShimMetrics(() -> false, () -> 0, () -> 0, () -> 0);
  private final List<String> read = new ArrayList<>();
  private final StatusReports reports = new StatusReports(clock::get,
      new Mirror(null, new Journal(16), MirrorSettings.of(1 << 20, 1000), new EngineView(node -> { })),
      new NoHandler() {
        @Override
        public void status(EngineStatus status, Directory directory) {
          read.add(status.policy);
        }
      }, metrics, new StateLog(clock::get));

  private void take(String status) throws Exception {
    reports.take(ProposalFrame.parse(ScriptedEngine.answer(1, 1, 0, status), 0));
  }

  private String policy() {
    return metrics.text("Policy");
  }

  @Test
  void oneStatusIsReadIn100MsAndThatIsTheLatest() throws Exception {
    for (int i = 0; i < 1000; i++) {
      take("{\"policy\": \"p" + i + "\"}");
    }
    assertEquals("p0", policy());
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(99));
    take("");
    assertEquals("p0", policy());
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(1));
    take("");
    assertEquals("p999", policy());
    assertEquals(Arrays.asList("p0", "p999"), read);
  }

  @Test
  void whatWasNotReadBelongsToItsConversation() throws Exception {
    take("{\"policy\": \"before\", \"warnings\": [\"w\"], \"waits_for\": \"pilots\", \"engines\": {\"a\": 1}}");
    assertEquals("{\"a\":1}", metrics.text("Engines"));
    take("{\"policy\": \"unread\"}");
    reports.hungUp();
    clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
    take("");
    assertEquals("before", policy());
    assertEquals("", metrics.text("Warnings") + metrics.text("WaitsFor") + metrics.text("Engines"));
    assertEquals(Collections.singletonList("before"), read);
  }

  /** What a sidecar with several engines says of them is passed on as one line, however it looks. */
  @Test
  void whatIsSaidOfSeveralEnginesIsPassedOn() throws Exception {
    take("{\"engines\": {\"engines\": {\"a\": {\"alive\": true, \"entry\": \"x\\ny\"}}}}");
    assertEquals("{\"engines\":{\"a\":{\"alive\":true,\"entry\":\"x\\ny\"}}}", metrics.text("Engines"));
    for (String none : new String[] {"{}", "{\"engines\": [1]}", "{\"engines\": {\"a\": \"" + letters(8192) + "\"}}"}) {
      clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
      take(none);
      assertEquals("", metrics.text("Engines"));
    }
    clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
    take("{\"engines\": {\"a\": \"" + letters(8000) + "\"}}");
    assertEquals(8008, metrics.text("Engines").length());
  }

  private static String letters(int count) {
    return String.join("", Collections.nCopies(count, "x"));
  }
}

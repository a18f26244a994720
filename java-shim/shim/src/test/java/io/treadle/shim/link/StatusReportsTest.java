package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.engines.Served;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.metrics.ShimMetrics;
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
  private final List<Integer> configurations = new ArrayList<>();
  private final StatusReports reports = new StatusReports(clock::get,
      new Mirror(null, new Journal(16), MirrorSettings.of(1 << 20, 1000), Served.ALL), new NoHandler() {
        @Override
        public String status(EngineStatus status, int configuration, Directory directory) {
          configurations.add(configuration);
          return "";
        }
      }, metrics, new StateLog(clock::get, () -> ""));

  private void take(String status, int configuration) throws Exception {
    reports.take(ProposalFrame.parse(ScriptedEngine.answer(1, 1, 0, status), 0), configuration);
  }

  private String policy() {
    return metrics.text("Policy");
  }

  @Test
  void oneStatusIsReadIn100MsAndThatIsTheLatest() throws Exception {
    for (int i = 0; i < 1000; i++) {
      take("{\"policy\": \"p" + i + "\"}", i);
    }
    assertEquals("p0", policy());
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(99));
    take("", 1000);
    assertEquals("p0", policy());
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(1));
    take("", 1001);
    assertEquals("p999", policy());
    assertEquals(Arrays.asList(0, 999), configurations);
  }

  @Test
  void whatWasNotReadBelongsToItsConversation() throws Exception {
    take("{\"policy\": \"before\", \"warnings\": [\"w\"], \"waits_for\": \"pilots\"}", 0);
    take("{\"policy\": \"unread\"}", 0);
    reports.hungUp();
    clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
    take("", 0);
    assertEquals("before", policy());
    assertEquals("", metrics.text("Warnings") + metrics.text("WaitsFor"));
    assertEquals(Collections.singletonList(0), configurations);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an engine says of itself goes to the RM's log, so that it is bounded. */
class StatusReportsTest {
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
  private final ShimMetrics metrics = new ShimMetrics();
  private final List<String> read = new ArrayList<>();
  private final StatusReports reports = new StatusReports(clock::get,
      new Mirror(null, new Journal(16, () -> { }), new MirrorSettings(1 << 20, 1000, 200, 1000), new HashMap<>()),
      new NoHandler() {
        @Override
        public void status(boolean guarantees, boolean order, Map<Integer, String> diagnostics, Directory directory) {
          read.add(guarantees + " " + order + " " + diagnostics);
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
    assertEquals(2, read.size());
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
    assertEquals(1, read.size());
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

  @Test
  void longTextsAreCutAndMoreWarningsThanAnyoneReadsAreDropped() throws Exception {
    String text = letters(30_000);
    take("{\"policy\": \"p\", \"error\": \"" + text + "\", \"warnings\": [\"" + text + "\", \"short\"]}");
    assertEquals("p", policy());
    assertEquals(letters(1000) + "...", metrics.text("LastError"));
    assertEquals(Arrays.asList(letters(1000) + "...", "short"),
        StatusReports.texts(Json.object("{\"all\": [\"" + text + "\", \"short\"]}", "all").get("all")));
    String many = String.join(",", Collections.nCopies(1000, "\"w\""));
    again("{\"warnings\": [" + many + "]}");
    assertEquals(String.join("; ", Collections.nCopies(20, "w")), metrics.text("Warnings"));
  }

  /** Long enough after the last one. */
  private void again(String status) throws Exception {
    clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
    take(status);
  }

  @Test
  void whatItDoesNotSayIsNone() throws Exception {
    take("{\"policy\": \"p\", \"error\": \"e\", \"learned\": \"1 of 2 jobs\"}");
    assertEquals("1 of 2 jobs", metrics.text("Learned"));
    assertEquals("e", metrics.text("LastError"));
    again("{\"error\": null}");
    assertEquals("", policy() + metrics.text("LastError") + metrics.text("Learned") + metrics.text("WaitsFor"));
    assertThrows(IOException.class, () -> again("[]"));
  }

  @Test
  void guaranteesAndOrderAreKeptUnlessItSaysOtherwise() throws Exception {
    take("{\"overrides_guarantees\": true}");
    again("{\"overrides_guarantees\": false, \"overrides_order\": true}");
    again("{\"diagnostics\": [[3, \"no node\"], [-1, \"x\"], [4], \"y\"]}");
    assertEquals(Arrays.asList("true false {}", "false true {}", "false false {3=no node}"), read);
  }

  @Test
  void saysWhatItWaitsFor() throws Exception {
    byte[] golden = Files.readAllBytes(Paths.get("../../tests/golden/proposals.bin"));
    reports.take(ProposalFrame.parse(golden, 4));
    assertEquals("pilots", metrics.text("WaitsFor"));
  }

  @Test
  void whatAnEngineSaysStaysOnOneLine() throws Exception {
    String text = "\"x\\n2026-11-22 ERROR forged \\u001b[2Jy\"";
    take("{\"policy\": " + text + ", \"error\": " + text + ", \"learned\": " + text + ", \"warnings\": [" + text
        + "], \"diagnostics\": [[0, " + text + "]]}");
    String line = "x 2026-11-22 ERROR forged  [2Jy";
    for (String shown : new String[] {"Policy", "LastError", "Learned", "Warnings"}) {
      assertEquals(line, metrics.text(shown));
    }
    assertEquals(Collections.singletonList("false false {0=" + line + "}"), read);
  }

  /** Each of them is short as a text: a tree of it would take much more memory, or time. */
  @ParameterizedTest
  @ValueSource(strings = {"[", "{\"\":", "[],", "{},", "1"})
  void whatIsDeepOrOfManyElementsOrLongNumbersIsRefusedBeforeATreeIsMade(String piece) {
    String text = "{\"policy\": [" + String.join("", Collections.nCopies(65_000 / piece.length(), piece));
    String why = assertThrows(IOException.class, () -> take(text)).getMessage();
    assertEquals("the status of an answer is nested too deeply, or has too many elements or digits", why);
  }

  /** A link keeps what it has read for as long as it likes. */
  @Test
  void nothingOfTheTextIsKeptButTextsAndNumbers() {
    for (Field field : StatusReports.class.getDeclaredFields()) {
      assertFalse(JsonNode.class.isAssignableFrom(field.getType()), field.getName());
    }
  }

  /** Keys are for the plan listener; other applications have no plug-in that speaks with it. */
  @Test
  void keysAreOnlyOfTypesThatHaveAPlugIn() throws IOException {
    JsonNode types = Json.object("{\"one\": [\"MAPREDUCE\", \"tez\", \"YARN\", 7], \"all\": [\"SPARK\", \"TEZ\"]}",
        "types");
    assertEquals(Collections.singleton("TEZ"), StatusReports.keyed(types.get("one")));
    assertEquals(2, StatusReports.keyed(types.get("all")).size());
  }

  private static String letters(int count) {
    return String.join("", Collections.nCopies(count, "x"));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an engine says of itself goes to the RM's log, so that it is bounded. */
class EngineStatusTest {
  private static String letters(int count) {
    return String.join("", Collections.nCopies(count, "x"));
  }

  @Test
  void longTextsAreCut() throws Exception {
    String text = letters(30_000);
    EngineStatus status = new EngineStatus(
        "{\"policy\": \"p\", \"error\": \"" + text + "\", \"warnings\": [\"" + text + "\", \"short\"]}");
    assertEquals("p", status.policy);
    assertEquals(letters(1000) + "...", status.error);
    assertEquals(letters(1000) + "...", status.warnings.get(0));
    assertEquals("short", status.warnings.get(1));
  }

  @Test
  void moreWarningsThanAnyoneReadsAreDropped() throws Exception {
    String many = String.join(",", Collections.nCopies(1000, "\"w\""));
    assertEquals(20, new EngineStatus("{\"warnings\": [" + many + "]}").warnings.size());
  }

  @Test
  void noErrorIsNull() throws Exception {
    assertTrue(new EngineStatus("{\"error\": null}").error.isEmpty());
    assertThrows(IOException.class, () -> new EngineStatus("[]"));
  }

  @Test
  void guaranteesAreKeptUnlessItSaysOtherwise() throws Exception {
    assertTrue(new EngineStatus("{\"overrides_guarantees\": true}").overridesGuarantees);
    assertFalse(new EngineStatus("{\"overrides_guarantees\": false}").overridesGuarantees);
    assertFalse(new EngineStatus("{}").overridesGuarantees);
    assertTrue(new EngineStatus("{\"overrides_order\": true}").overridesOrder);
    assertFalse(new EngineStatus("{\"overrides_guarantees\": true}").overridesOrder);
  }

  @Test
  void saysWhatIsKnownOfJobs() throws IOException {
    assertEquals("1 of 2 jobs", new EngineStatus("{\"learned\": \"1 of 2 jobs\"}").learned);
    assertEquals("", new EngineStatus("{}").learned);
  }

  @Test
  void saysWhatItWaitsFor() throws Exception {
    assertEquals("", new EngineStatus("{}").waitsFor);
    byte[] golden = Files.readAllBytes(Paths.get("../../tests/golden/proposals.bin"));
    assertEquals("pilots", new EngineStatus(ProposalFrame.parse(golden, 4).status()).waitsFor);
  }

  @Test
  void whatAnEngineSaysStaysOnOneLine() throws IOException {
    String text = "\"x\\n2026-11-22 ERROR forged \\u001b[2Jy\"";
    EngineStatus status = new EngineStatus("{\"policy\": " + text + ", \"error\": " + text + ", \"learned\": " + text
        + ", \"warnings\": [" + text + "]}");
    String line = "x 2026-11-22 ERROR forged  [2Jy";
    assertEquals(line, status.policy);
    assertEquals(line, status.error);
    assertEquals(line, status.learned);
    assertEquals(Collections.singletonList(line), status.warnings);
  }

  /** Each of them is short as a text: a tree of it would take much more memory, or time. */
  @ParameterizedTest
  @ValueSource(strings = {"[", "{\"\":", "[],", "{},", "1"})
  void whatIsDeepOrOfManyElementsOrLongNumbersIsRefusedBeforeATreeIsMade(String piece) {
    String text = "{\"policy\": [" + String.join("", Collections.nCopies(65_000 / piece.length(), piece));
    String why = assertThrows(IOException.class, () -> new EngineStatus(text)).getMessage();
    assertEquals("the status of an answer is nested too deeply, or has too many elements or digits", why);
  }

  /** A link keeps what it has read for as long as it likes. */
  @Test
  void nothingOfTheTextIsKeptButTextsAndNumbers() {
    for (Field field : EngineStatus.class.getDeclaredFields()) {
      assertFalse(JsonNode.class.isAssignableFrom(field.getType()), field.getName());
    }
  }

  /** Keys are for the plan listener; other applications have no plug-in that speaks with it. */
  @Test
  void keysAreOnlyOfTypesThatHaveAPlugIn() throws IOException {
    assertEquals(Collections.singleton("TEZ"),
        new EngineStatus("{\"keys_for\": [\"MAPREDUCE\", \"tez\", \"YARN\", 7]}").keysFor);
    assertEquals(2, new EngineStatus("{\"keys_for\": [\"SPARK\", \"TEZ\"]}").keysFor.size());
  }
}

package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Collections;
import org.junit.jupiter.api.Test;

/** What an engine says of itself goes to the RM's log, so that it is bounded. */
class EngineStatusTest {
  private static String letters(int count) {
    return String.join("", Collections.nCopies(count, "x"));
  }

  @Test
  void longTextsAreCut() throws Exception {
    String text = letters(100_000);
    EngineStatus status = EngineStatus.parse(
        "{\"policy\": \"p\", \"error\": \"" + text + "\", \"warnings\": [\"" + text + "\", \"short\"]}");
    assertEquals("p", status.policy);
    assertEquals(letters(1000) + "...", status.error);
    assertEquals(letters(1000) + "...", status.warnings.get(0));
    assertEquals("short", status.warnings.get(1));
  }

  @Test
  void moreWarningsThanAnyoneReadsAreDropped() throws Exception {
    String many = String.join(",", Collections.nCopies(1000, "\"w\""));
    assertEquals(20, EngineStatus.parse("{\"warnings\": [" + many + "]}").warnings.size());
  }

  @Test
  void noErrorIsNull() throws Exception {
    assertTrue(EngineStatus.parse("{\"error\": null}").error.isEmpty());
    assertThrows(IOException.class, () -> EngineStatus.parse("[]"));
  }

  @Test
  void guaranteesAreKeptUnlessItSaysOtherwise() throws Exception {
    assertTrue(EngineStatus.parse("{\"overrides_guarantees\": true}").overridesGuarantees);
    assertFalse(EngineStatus.parse("{\"overrides_guarantees\": false}").overridesGuarantees);
    assertFalse(EngineStatus.parse("{}").overridesGuarantees);
    assertTrue(EngineStatus.parse("{\"overrides_order\": true}").overridesOrder);
    assertFalse(EngineStatus.parse("{\"overrides_guarantees\": true}").overridesOrder);
  }

  @Test
  void saysWhatIsKnownOfJobs() throws IOException {
    assertEquals("1 of 2 jobs", EngineStatus.parse("{\"learned\": \"1 of 2 jobs\"}").learned);
    assertEquals("", EngineStatus.parse("{}").learned);
  }

  @Test
  void saysWhatItWaitsFor() throws Exception {
    assertEquals("", EngineStatus.parse("{}").waitsFor);
    byte[] golden = Files.readAllBytes(Paths.get("../../tests/golden/proposals.bin"));
    assertEquals("pilots", EngineStatus.parse(ProposalFrame.parse(golden, 4).status()).waitsFor);
  }

  @Test
  void whatAnEngineSaysStaysOnOneLine() throws IOException {
    String text = "\"x\\n2026-11-22 ERROR forged \\u001b[2Jy\"";
    EngineStatus status = EngineStatus.parse("{\"policy\": " + text + ", \"error\": " + text + ", \"learned\": " + text
        + ", \"warnings\": [" + text + "]}");
    String line = "x 2026-11-22 ERROR forged  [2Jy";
    assertEquals(line, status.policy);
    assertEquals(line, status.error);
    assertEquals(line, status.learned);
    assertEquals(Collections.singletonList(line), status.warnings);
  }

  @Test
  void bracketsWithinBracketsAreTheEnginesFault() {
    String deep = String.join("", Collections.nCopies(1_000_000, "["));
    assertThrows(IOException.class, () -> EngineStatus.parse("{\"policy\": " + deep));
  }
}

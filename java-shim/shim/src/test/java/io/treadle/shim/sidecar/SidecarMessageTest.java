// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SidecarMessageTest {
  @Test
  void whatASidecarSaysStaysOnOneLine() {
    SidecarMessage message = SidecarMessage.parse(
        "{\"error\": \"x\\n2026-11-22 ERROR forged \\u001b[2J\\r\\u202e\\u2028\\u0085y \u00e9\"}");
    assertEquals("x 2026-11-22 ERROR forged  [2J    y \u00e9", message.text);
  }

  @Test
  void itIsShort() {
    String text = String.join("", Collections.nCopies(60_000, "x"));
    assertEquals(1003, SidecarMessage.parse("{\"error\": \"" + text + "\"}").text.length());
    assertEquals(1003,
        SidecarMessage.parse("{\"ready\": true, \"port\": 7, \"version\": \"" + text + "\"}").text.length());
  }

  @ParameterizedTest
  @ValueSource(strings = {"{\"progress\": \"x\"}", "no json", "[]", "7", ""})
  void whatIsNeitherReadyNorAnErrorIsNothing(String line) {
    assertNull(SidecarMessage.parse(line));
  }
}

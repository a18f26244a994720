package io.treadle.shim.sidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class SidecarMessageTest {
  @Test
  void whatASidecarSaysStaysOnOneLine() {
    for (String kind : new String[] {"progress", "error"}) {
      SidecarMessage message = SidecarMessage.parse(
          "{\"" + kind + "\": \"x\\n2026-11-22 ERROR forged \\u001b[2J\\r\\u202e\\u2028\\u0085y \u00e9\"}");
      assertEquals("x 2026-11-22 ERROR forged  [2J    y \u00e9", message.text());
    }
    assertEquals("no json  [2J", SidecarMessage.parse("no json \u001b[2J").text());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.metrics.Troubles.Kind;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class TroublesTest {
  private final AtomicLong clock = new AtomicLong(1_700_000_000_000L);
  private final Troubles troubles = new Troubles(() -> clock.addAndGet(1000));

  private void shows(String text, String time) {
    assertEquals(text, troubles.text());
    assertEquals(time, troubles.time());
  }

  @Test
  void theLatestThatIsNotMendedIsShownWithItsTime() {
    shows("", "");
    troubles.note(Kind.SETTINGS, "no such mode");
    troubles.note(Kind.LINK, "no answer");
    shows("no answer", "2023-11-14T22:13:22Z");
    troubles.note(Kind.LINK, "");
    shows("no such mode", "2023-11-14T22:13:21Z");
    troubles.note(Kind.SETTINGS, "");
    shows("", "");
  }

  @Test
  void whatHappensAgainIsNew() {
    troubles.note(Kind.LINK, "no answer");
    troubles.note(Kind.ENGINE, "line 3: no");
    troubles.note(Kind.LINK, "no answer");
    assertEquals("no answer", troubles.text());
  }

  @Test
  void whatGoesOnKeepsItsTime() {
    troubles.goesOn(Kind.STARVING, "it places nothing");
    troubles.note(Kind.SETTINGS, "no such mode");
    troubles.goesOn(Kind.STARVING, "it places nothing");
    assertEquals("no such mode", troubles.text());
    troubles.note(Kind.SETTINGS, "");
    shows("it places nothing", "2023-11-14T22:13:21Z");
    troubles.goesOn(Kind.STARVING, "");
    assertEquals("", troubles.text());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;

class StateLogTest {
  private final LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(Link.class));
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
  private final StateLog states = new StateLog(clock::get);

  @BeforeEach
  void logEverything() {
    GenericTestUtils.setLogLevel(LoggerFactory.getLogger(Link.class), Level.INFO);
  }

  @AfterEach
  void stop() {
    log.stopCapturing();
  }

  private int lines() {
    return log.getOutput().isEmpty() ? 0 : log.getOutput().split("\n").length;
  }

  @Test
  void onlyChangesAreLines() {
    for (int i = 0; i < 3; i++) {
      states.policy("p");
      states.refusal("because");
      states.leaseHeld(true);
    }
    states.leaseLost("gone");
    states.leaseLost("gone");
    states.refusal(null);
    assertEquals(5, lines(), log.getOutput());
  }

  @Test
  void anEngineThatChangesItsMindInEachAnswerDoesNotFillTheLog() {
    for (int i = 0; i < 1000; i++) {
      states.policy("p" + i);
    }
    assertEquals(20, lines());
    clock.addAndGet(TimeUnit.SECONDS.toNanos(10));
    states.policy("the last one");
    states.policy("one too many");
    assertEquals(21, lines());
    assertTrue(log.getOutput().contains("the last one, it was p999 (980 earlier lines were left out)"),
        log.getOutput());
  }

  @Test
  void textsAndFailuresDoNotFillTheLogEither() {
    for (int i = 0; i < 1000; i++) {
      states.text("warning " + i);
      states.failed("failure " + i, null);
    }
    assertEquals(20, lines());
  }

  @Test
  void aWarningIsNewsOnceUntilARefresh() {
    for (int i = 0; i < 10; i++) {
      states.text("it is late");
      states.failed("killed", null);
    }
    assertEquals(2, lines(), log.getOutput());
    states.refreshed();
    states.text("it is late");
    states.steady();
    states.failed("killed", null);
    assertEquals(4, lines(), log.getOutput());
  }

  @Test
  void whateverItSaysIsOneShortLine() {
    states.text("x\n2026-11-22 FATAL forged \u001b[2J" + String.join("", Collections.nCopies(10_000, "y")));
    assertEquals(1, lines());
    assertTrue(log.getOutput().contains("x 2026-11-22 FATAL forged  [2Jyy"), log.getOutput());
    assertTrue(log.getOutput().length() < 1200, log.getOutput());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class RestartsTest {
  private final Restarts restarts = new Restarts();

  /** Ends a run that began just now, and answers how long nothing may be started after it. */
  private long pauseAfterEnd(long nowMs, boolean rest) {
    restarts.started(nowMs);
    assertEquals(rest, restarts.ended(nowMs));
    long pause = 0;
    while (!restarts.mayStart(nowMs + pause)) {
      pause += 100;
    }
    return pause;
  }

  @Test
  void mayStartAtFirst() {
    assertTrue(restarts.mayStart(-5_000_000));
  }

  @Test
  void pausesDoubleAndACrashLoopRests() {
    long[] pauses = {200, 400, 800, 1600, 3200, 6400, 12_800};
    for (long pause : pauses) {
      assertEquals(pause, pauseAfterEnd(1000, false));
    }
    assertEquals(Restarts.REST_MS, pauseAfterEnd(1000, true));
    assertEquals(200, pauseAfterEnd(1000, false));
  }

  @Test
  void aSteadyRunMakesUpForEarlierEnds() {
    pauseAfterEnd(0, false);
    pauseAfterEnd(0, false);
    restarts.started(0);
    restarts.answered(Restarts.STEADY_MS - 1);
    restarts.answered(Restarts.STEADY_MS);
    assertFalse(restarts.ended(Restarts.STEADY_MS));
    assertTrue(restarts.mayStart(Restarts.STEADY_MS + 200));
  }

  @Test
  void anAdministratorCutsARestShort() {
    for (int i = 1; i < Restarts.ENDS; i++) {
      assertFalse(restarts.ended(0));
    }
    assertTrue(restarts.ended(0));
    assertFalse(restarts.mayStart(Restarts.REST_MS - 1));
    restarts.reset();
    assertTrue(restarts.mayStart(0));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

/**
 * When a sidecar that ended may be started again: after pauses that double, and after too many ends in a row only after
 * a long rest. Time is an argument, in milliseconds of a monotonic clock. Used by one thread.
 */
final class Restarts {
  /** How many ends without a steady run between them are a crash loop. */
  static final int ENDS = 8;
  static final long FIRST_PAUSE_MS = 200;
  static final long LONGEST_PAUSE_MS = 30_000;
  static final long REST_MS = 600_000;
  /** A sidecar that answers after a run as long as this was no part of a crash loop. */
  static final long STEADY_MS = 60_000;

  private int ends;
  private long startedMs;
  long notBeforeMs = Long.MIN_VALUE;

  /** Whether one may be started now. */
  boolean mayStart(long nowMs) {
    return nowMs >= notBeforeMs;
  }

  /** One was started. */
  void started(long nowMs) {
    startedMs = nowMs;
  }

  /** It answered. */
  void answered(long nowMs) {
    if (nowMs - startedMs >= STEADY_MS) {
      ends = 0;
    }
  }

  /**
   * It ended, was killed, or could not be started at all.
   *
   * @return whether that was once too often, so that there is a long rest now
   */
  boolean ended(long nowMs) {
    ends++;
    if (ends >= ENDS) {
      ends = 0;
      notBeforeMs = nowMs + REST_MS;
      return true;
    }
    notBeforeMs = nowMs + Math.min(FIRST_PAUSE_MS << ends - 1, LONGEST_PAUSE_MS);
    return false;
  }

  /** The administrator changed something: begin anew. */
  void reset() {
    ends = 0;
    notBeforeMs = Long.MIN_VALUE;
  }
}

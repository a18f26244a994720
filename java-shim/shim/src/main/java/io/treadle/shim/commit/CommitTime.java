// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.function.LongSupplier;

/**
 * How long one answer may be committed, and how many of its proposals were left over. However slow commits are, be it
 * for heartbeats that take turns with them or for a machine that is busy, the engine has to be asked again before its
 * lease runs out. Used by one thread.
 */
public final class CommitTime {
  private final LongSupplier nanoClock;
  private final long endNanos;
  private int leftOver;

  /**
   * Begins now.
   *
   * @param nanoClock a monotonic clock such as {@code System::nanoTime}
   * @param nanos how long commits may go on; a batch that has begun is finished
   */
  public CommitTime(LongSupplier nanoClock, long nanos) {
    this.nanoClock = nanoClock;
    this.endNanos = nanoClock.getAsLong() + nanos;
  }

  boolean isOver() {
    return nanoClock.getAsLong() - endNanos >= 0;
  }

  void leaveOver(int proposals) {
    leftOver += proposals;
  }

  /** How many proposals were not looked at since the time was over. */
  public int leftOver() {
    return leftOver;
  }
}

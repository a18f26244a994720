// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.function.LongSupplier;

/** Allows a number of things at once, and then one in each period. Used by one thread at a time. */
public final class Rate {
  private final LongSupplier nanoClock;
  private final int atOnce;
  private final long everyNanos;
  private long left;
  private long filledNanos;

  /**
   * All of it is left.
   *
   * @param nanoClock a monotonic clock such as {@code System::nanoTime}
   * @param atOnce at least 1
   * @param everyNanos the period, nanoseconds
   */
  public Rate(LongSupplier nanoClock, int atOnce, long everyNanos) {
    this.nanoClock = nanoClock;
    this.atOnce = atOnce;
    this.everyNanos = everyNanos;
    this.left = atOnce;
    this.filledNanos = nanoClock.getAsLong();
  }

  /** Whether one more is allowed now; it counts. */
  public boolean take() {
    long nanos = nanoClock.getAsLong();
    long more = (nanos - filledNanos) / everyNanos;
    left += more;
    filledNanos += more * everyNanos;
    if (left >= atOnce) {
      left = atOnce;
      filledNanos = nanos;
    }
    if (left == 0) {
      return false;
    }
    left--;
    return true;
  }
}

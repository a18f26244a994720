// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.function.LongSupplier;

/** Allows a number of things at once, and then one in each period. Used by one thread at a time. */
public final class Rate {
  private final LongSupplier nanoClock;
  private final long atOnceNanos;
  private final long everyNanos;
  /** Up to when the periods are spent. */
  private long spentNanos;

  /**
   * All of it is left.
   *
   * @param nanoClock a monotonic clock such as {@code System::nanoTime}
   * @param atOnce at least 1
   * @param everyNanos the period, nanoseconds
   */
  public Rate(LongSupplier nanoClock, int atOnce, long everyNanos) {
    this.nanoClock = nanoClock;
    this.atOnceNanos = atOnce * everyNanos;
    this.everyNanos = everyNanos;
    this.spentNanos = nanoClock.getAsLong() - atOnceNanos;
  }

  /** Whether one more is allowed now; it counts. */
  public boolean take() {
    long nanos = nanoClock.getAsLong();
    long unspentNanos = Math.min(nanos - spentNanos, atOnceNanos);
    boolean allowed = unspentNanos >= everyNanos;
    spentNanos = nanos - unspentNanos + (allowed ? everyNanos : 0);
    return allowed;
  }
}

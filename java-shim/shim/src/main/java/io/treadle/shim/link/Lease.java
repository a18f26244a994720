// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * The right of an engine to schedule: held for some time after each of its answers. It expires by itself, since each
 * query looks at the clock; no thread and no message is needed for the stock scheduler to take over. An observed engine
 * holds it too, but does not keep the stock scheduler from scheduling. Thread-safe.
 */
public final class Lease {
  private final LongSupplier nanoClock;
  private final AtomicBoolean seenHeld = new AtomicBoolean();
  private final LongAdder flips = new LongAdder();
  private volatile long durationNanos;
  /** When it ends, by the clock; only while {@link #taken}. */
  private volatile long endNanos;
  private volatile boolean taken;
  /** Whether the last answer was one to commit. */
  private volatile boolean enforced;

  /**
   * A free lease.
   *
   * @param nanoClock a monotonic clock such as {@code System::nanoTime}
   * @param durationMs how long an answer keeps it, milliseconds
   */
  public Lease(LongSupplier nanoClock, long durationMs) {
    this.nanoClock = nanoClock;
    duration(durationMs);
  }

  /** Changes how long the next answers keep it, milliseconds. */
  public void duration(long durationMs) {
    durationNanos = TimeUnit.MILLISECONDS.toNanos(durationMs);
  }

  /**
   * The engine answered just now.
   *
   * @param committed whether its answer is committed rather than observed
   */
  public void renew(boolean committed) {
    enforced = committed;
    endNanos = nanoClock.getAsLong() + durationNanos;
    taken = true;
    held();
  }

  /** For how long it will be held if the engine does not answer again, nanoseconds; 0 if it is not. */
  long leftNanos() {
    return taken ? Math.max(0, endNanos - nanoClock.getAsLong()) : 0;
  }

  /** The engine failed: there is no use in waiting for the end. */
  public void release() {
    taken = false;
    held();
  }

  /** Whether an engine holds it now. */
  public boolean held() {
    boolean held = taken && nanoClock.getAsLong() - endNanos < 0;
    if (held != seenHeld.get() && seenHeld.compareAndSet(!held, held)) {
      flips.increment();
    }
    return held;
  }

  /**
   * Whether an engine holds it now and its last answer was one to commit. Until the first of these the stock scheduler
   * goes on, however long the engine has been observed before.
   */
  public boolean schedules() {
    return held() && enforced;
  }

  /** How often it was taken or lost; a loss by time counts at the first query after it. */
  public long flips() {
    held();
    return flips.sum();
  }
}

package io.treadle.shim.constraints;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Lets one warning in ten minutes through, of those that each node and each request may cause. Any thread. */
final class Seldom {
  private static final long PAUSE_NANOS = TimeUnit.MINUTES.toNanos(10);

  private final AtomicReference<Long> lastNanos = new AtomicReference<>();

  /** Whether a warning is due; {@code nowNanos} is a monotonic clock. */
  boolean isDue(long nowNanos) {
    Long last = lastNanos.get();
    return (last == null || nowNanos - last >= PAUSE_NANOS) && lastNanos.compareAndSet(last, nowNanos);
  }
}

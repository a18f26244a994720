// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/**
 * When something happened: the first and the last time, and how often in each tenth of a second since the timeline was
 * made. Thread-safe and of fixed size: what happens after the last tenth of a second counts there.
 */
final class EventTimeline {
  /** Width of a bucket, in milliseconds. */
  static final long BUCKET_MS = 100;

  private static final int MAX_BUCKETS = 2 * 60 * 60 * 10;
  private static final long NEVER = Long.MIN_VALUE;

  private final long originNanos;
  private final AtomicIntegerArray buckets = new AtomicIntegerArray(MAX_BUCKETS);
  private final AtomicLong total = new AtomicLong();
  private final AtomicLong first = new AtomicLong(NEVER);
  private final AtomicLong last = new AtomicLong(NEVER);

  /** A timeline that starts at {@code originNanos}, by {@link System#nanoTime}. */
  EventTimeline(long originNanos) {
    this.originNanos = originNanos;
  }

  /** Notes one event at {@code nowNanos}, by {@link System#nanoTime}. */
  void record(long nowNanos) {
    long since = Math.max(0, nowNanos - originNanos);
    if (first.get() == NEVER) {
      first.compareAndSet(NEVER, since);
    }
    last.accumulateAndGet(since, Math::max);
    int bucket = (int) Math.min(MAX_BUCKETS - 1L, since / TimeUnit.MILLISECONDS.toNanos(BUCKET_MS));
    buckets.incrementAndGet(bucket);
    total.incrementAndGet();
  }

  /** How many events there were. */
  long total() {
    return total.get();
  }

  /** Milliseconds from the origin to the first event, -1 if there was none. */
  double firstMs() {
    return toMillis(first.get());
  }

  /** Milliseconds from the origin to the last event, -1 if there was none. */
  double lastMs() {
    return toMillis(last.get());
  }

  /** Events in each bucket, up to the bucket of the last event. */
  int[] counts() {
    long end = last.get();
    if (end == NEVER) {
      return new int[0];
    }
    int used = (int) Math.min(MAX_BUCKETS, end / TimeUnit.MILLISECONDS.toNanos(BUCKET_MS) + 1);
    int[] counts = new int[used];
    for (int i = 0; i < used; i++) {
      counts[i] = buckets.get(i);
    }
    return counts;
  }

  private static double toMillis(long nanos) {
    return nanos == NEVER ? -1 : nanos / 1e6;
  }
}

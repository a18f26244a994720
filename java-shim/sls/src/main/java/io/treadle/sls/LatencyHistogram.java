// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;

/**
 * Counts durations in buckets that are 1/32 of a power of two wide, so that a quantile is accurate to about 3 %. It has
 * a fixed size, and is cheap enough for every heartbeat and every commit. Thread-safe.
 */
final class LatencyHistogram {
  private static final int SUB_BUCKET_BITS = 5;
  private static final int SUB_BUCKETS = 1 << SUB_BUCKET_BITS;

  private final AtomicLongArray buckets = new AtomicLongArray((Long.SIZE - SUB_BUCKET_BITS) * SUB_BUCKETS);
  private final LongAdder count = new LongAdder();
  private final LongAdder totalNanos = new LongAdder();

  /** Adds one duration; a negative one counts as 0. */
  void record(long nanos) {
    long duration = Math.max(0, nanos);
    buckets.incrementAndGet(bucket(duration));
    count.increment();
    totalNanos.add(duration);
  }

  /** Forgets all durations; one that is recorded meanwhile may count in part. */
  void clear() {
    for (int i = 0; i < buckets.length(); i++) {
      buckets.set(i, 0);
    }
    count.reset();
    totalNanos.reset();
  }

  /** How many durations were recorded. */
  long count() {
    return count.sum();
  }

  /** The sum of all durations, in nanoseconds. */
  long totalNanos() {
    return totalNanos.sum();
  }

  /**
   * The duration that a share of the recorded ones does not exceed.
   *
   * @param quantile in [0, 1]
   * @return nanoseconds, the middle of the bucket found; 0 if nothing was recorded
   */
  long quantileNanos(double quantile) {
    long total = 0;
    for (int i = 0; i < buckets.length(); i++) {
      total += buckets.get(i);
    }
    long wanted = Math.max(1, (long) Math.ceil(quantile * total));
    long seen = 0;
    for (int i = 0; i < buckets.length(); i++) {
      seen += buckets.get(i);
      if (seen >= wanted) {
        return middle(i);
      }
    }
    return 0;
  }

  private static int bucket(long nanos) {
    if (nanos < SUB_BUCKETS) {
      return (int) nanos;
    }
    int shift = Long.SIZE - 1 - Long.numberOfLeadingZeros(nanos) - SUB_BUCKET_BITS;
    return (shift + 1) * SUB_BUCKETS + (int) (nanos >>> shift) - SUB_BUCKETS;
  }

  private static long middle(int bucket) {
    if (bucket < SUB_BUCKETS) {
      return bucket;
    }
    int shift = bucket / SUB_BUCKETS - 1;
    long low = (long) (bucket % SUB_BUCKETS + SUB_BUCKETS) << shift;
    return low + (1L << shift) / 2;
  }
}

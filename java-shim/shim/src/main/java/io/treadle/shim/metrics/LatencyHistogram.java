package io.treadle.shim.metrics;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Durations counted in buckets that grow by an eighth of a power of two: quantiles of any number of values in 4 KiB,
 * off by less than 13 %. Thread-safe.
 */
final class LatencyHistogram {
  private static final int SUB_BITS = 3;
  private static final int SUB = 1 << SUB_BITS;

  private final AtomicLongArray buckets = new AtomicLongArray(SUB * (Long.SIZE - SUB_BITS));

  /** Counts a value of at least 0; the unit is the caller's. */
  void add(long value) {
    buckets.incrementAndGet(bucket(Math.max(0, value)));
  }

  /** The value that a share of all values does not exceed, rounded up to its bucket's end; 0 if there are none. */
  long quantile(double share) {
    long total = 0;
    for (int i = 0; i < buckets.length(); i++) {
      total += buckets.get(i);
    }
    long rank = (long) Math.ceil(share * total);
    for (int i = 0; i < buckets.length() && total > 0; i++) {
      rank -= buckets.get(i);
      if (rank <= 0) {
        return end(i);
      }
    }
    return 0;
  }

  /** How often which values were counted: the largest of each bucket that is not empty, a colon, how many; with blanks between. */
  String counts() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < buckets.length(); i++) {
      long count = buckets.get(i);
      if (count > 0) {
        text.append(text.length() == 0 ? "" : " ").append(end(i)).append(':').append(count);
      }
    }
    return text.toString();
  }

  private static int bucket(long value) {
    if (value < SUB) {
      return (int) value;
    }
    int shift = Long.SIZE - 1 - SUB_BITS - Long.numberOfLeadingZeros(value);
    return (shift << SUB_BITS) + (int) (value >>> shift);
  }

  private static long end(int bucket) {
    if (bucket < SUB) {
      return bucket;
    }
    int shift = (bucket >> SUB_BITS) - 1;
    long first = ((long) (bucket & SUB - 1) + SUB) << shift;
    return first + (1L << shift) - 1;
  }
}

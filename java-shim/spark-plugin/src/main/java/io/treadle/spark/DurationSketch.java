// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import java.io.DataOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * How long tasks ran, as the store of profiles keeps it: the DDSketch of {@code treadle.history.profile}, whose buckets
 * grow by a constant factor. Count, sum, squares and extremes are exact.
 */
final class DurationSketch {
  private static final double RELATIVE_ACCURACY = 0.01;
  private static final double FACTOR = (1 + RELATIVE_ACCURACY) / (1 - RELATIVE_ACCURACY);
  /** Ten years. */
  private static final long DURATION_MAX_MS = 10L * 366 * 86_400_000;
  /** Multiplications only, which every machine rounds identically. */
  private static final double[] BOUNDS = bounds();

  private final Map<Integer, Integer> buckets = new TreeMap<>();
  private long minimum;
  private long maximum;
  private long sum;
  private BigInteger squares = BigInteger.ZERO;

  private static double[] bounds() {
    double[] bounds = new double[2_000];
    int count = 0;
    for (double bound = 1; bound < DURATION_MAX_MS; bound *= FACTOR) {
      bounds[count++] = bound;
    }
    bounds[count++] = DURATION_MAX_MS;
    return Arrays.copyOf(bounds, count);
  }

  /** Counts a duration; a negative one is taken for 0, more than ten years for that. */
  void add(long durationMs) {
    long value = Math.max(0, Math.min(durationMs, DURATION_MAX_MS));
    int found = Arrays.binarySearch(BOUNDS, value);
    minimum = buckets.isEmpty() ? value : Math.min(minimum, value);
    maximum = Math.max(maximum, value);
    buckets.merge(found >= 0 ? found : -found - 1, 1, Integer::sum);
    sum += value;
    BigInteger exact = BigInteger.valueOf(value);
    squares = squares.add(exact.multiply(exact));
  }

  /** Writes it into a report (docs/tez-plugin.md). */
  void write(DataOutputStream out) throws IOException {
    out.writeInt(buckets.size());
    if (buckets.isEmpty()) {
      return;
    }
    out.writeLong(minimum);
    out.writeLong(maximum);
    out.writeLong(sum);
    out.writeLong(squares.shiftRight(Long.SIZE).longValue());
    out.writeLong(squares.longValue());
    for (Map.Entry<Integer, Integer> bucket : buckets.entrySet()) {
      out.writeShort(bucket.getKey());
      out.writeInt(bucket.getValue());
    }
  }
}

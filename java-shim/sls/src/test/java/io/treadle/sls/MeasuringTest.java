// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class MeasuringTest {
  private static final long SECOND = 1_000_000_000L;

  @Test
  void quantilesAreRightToThreePercent() {
    Random random = new Random(1);
    LatencyHistogram histogram = new LatencyHistogram();
    long[] durations = new long[10_000];
    long total = 0;
    for (int i = 0; i < durations.length; i++) {
      durations[i] = (long) Math.exp(random.nextDouble() * 25);
      total += durations[i];
      histogram.record(durations[i]);
    }
    Arrays.sort(durations);
    assertEquals(durations.length, histogram.count());
    assertEquals(total, histogram.totalNanos());
    for (double quantile : new double[] {0.01, 0.5, 0.9, 0.99, 1}) {
      long exact = durations[(int) Math.ceil(quantile * durations.length) - 1];
      assertTrue(Math.abs(histogram.quantileNanos(quantile) - exact) <= exact * 0.032 + 1, "quantile " + quantile);
    }
  }

  @Test
  void anEmptyHistogramAndExtremeDurations() {
    LatencyHistogram histogram = new LatencyHistogram();
    assertEquals(0, histogram.quantileNanos(0.99));
    histogram.record(-5);
    assertEquals(0, histogram.quantileNanos(1));
    histogram.record(Long.MAX_VALUE);
    assertTrue(histogram.quantileNanos(1) > Long.MAX_VALUE / 33 * 32);
  }

  @Test
  void aHistogramThatWasClearedCountsAnew() {
    LatencyHistogram histogram = new LatencyHistogram();
    histogram.record(1_000_000);
    histogram.clear();
    assertEquals(0, histogram.count());
    histogram.record(100);
    assertEquals(100, histogram.quantileNanos(1), 4);
    assertEquals(100, histogram.totalNanos());
  }

  @Test
  void aTimelineCountsTenthsOfASecond() {
    EventTimeline timeline = new EventTimeline(5 * SECOND);
    assertEquals(-1, timeline.firstMs());
    assertEquals(0, timeline.counts().length);
    timeline.record(5 * SECOND + SECOND / 4);
    timeline.record(5 * SECOND + SECOND / 4 + 1);
    timeline.record(5 * SECOND + SECOND / 2);
    assertEquals(3, timeline.total());
    assertEquals(250, timeline.firstMs(), 0.001);
    assertEquals(500, timeline.lastMs(), 0.001);
    assertArrayEquals(new int[] {0, 0, 2, 0, 0, 1}, timeline.counts());
  }

  @Test
  void threadsAreGroupedByTheirNames() {
    assertEquals("scheduler_events", ThreadCpu.group("SchedulerEventDispatcher:Event Processor"));
    assertEquals("async_scheduling", ThreadCpu.group("AsyncCapacitySchedulerThread1"));
    assertEquals("async_commits", ThreadCpu.group(SlsMeasurements.COMMITTER_THREAD));
    assertEquals("treadle", ThreadCpu.group("treadle-link"));
    assertEquals("measurement", ThreadCpu.group("treadle-measurement"));
    assertEquals("simulators", ThreadCpu.group("pool-15-thread-3"));
    assertEquals("rm_events", ThreadCpu.group("AsyncDispatcher event handler"));
    assertEquals("other", ThreadCpu.group("main"));
  }
}

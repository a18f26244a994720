// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.ShimConfig;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class ObservedPauseTest {
  private static long pauseMs(long tookMs, int leaseMs) throws Exception {
    Configuration conf = new Configuration(false);
    conf.setInt(ShimConfig.LEASE_MS, leaseMs);
    return Link.pauseMs(TimeUnit.MILLISECONDS.toNanos(tookMs), ShimConfig.read(conf));
  }

  /**
   * On a small cluster the stock scheduler places most within 200 ms: an engine that answers fast must be asked before.
   */
  @Test
  void anEngineThatAnswersFastIsObservedOften() throws Exception {
    assertEquals(10, pauseMs(0, 2000), "a tick");
    assertEquals(60, pauseMs(3, 2000), "a twentieth of the time");
    assertEquals(200, pauseMs(30, 2000));
    assertEquals(100, pauseMs(30, 400), "the lease must not run out");
  }
}

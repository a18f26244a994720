// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import org.apache.hadoop.metrics2.lib.MutableQuantiles;
import org.apache.hadoop.metrics2.util.Quantile;

/** How long decisions took in the last window that is over, microseconds; 0 if there were none. Any thread. */
class DecideTimes extends MutableQuantiles {
  // as the estimator has them: a share and by how much it may be off
  private static final Quantile HALF = new Quantile(0.50, 0.050);
  private static final Quantile NEARLY_ALL = new Quantile(0.99, 0.001);

  /** Windows of so many seconds, until {@link #stop}. */
  DecideTimes(int windowS) {
    super("Decide", "Round trips to the engine", "Frames", "Us", windowS);
  }

  long p50() {
    return quantile(HALF);
  }

  long p99() {
    return quantile(NEARLY_ALL);
  }

  private synchronized long quantile(Quantile share) {
    return previousSnapshot == null ? 0 : previousSnapshot.get(share);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.Map;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.sls.AMDefinition;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.appmaster.AMSimulator;
import org.apache.hadoop.yarn.sls.appmaster.MRAMSimulator;

/**
 * A MapReduce job that comes some time after the one before it, with exponential intervals. SLS of Hadoop 3.4.2 cannot
 * do so: it starts all jobs of a SYNTH trace at once, and reads no trace of jobs at all.
 */
public class PacedMaster extends MRAMSimulator {
  /** Mean number of jobs per second. */
  static final String PER_SECOND_KEY = "treadle.bench.arrivals";
  /** Seed of the drawn intervals. */
  static final String SEED_KEY = "treadle.bench.arrivals.seed";

  private static Random random;
  private static double lastMs;

  @Override
  public void init(AMDefinition definition, ResourceManager rm, SLSRunner runner, boolean tracked, long baselineMs,
      long heartbeatMs, Map<ApplicationId, AMSimulator> simulators) {
    super.init(definition, rm, runner, tracked, baselineMs, heartbeatMs, simulators);
    long startMs = next(rm.getConfig());
    // as long as AMSimulator would, from then on
    init(startMs, startMs + 1_000_000L * heartbeatMs, heartbeatMs);
  }

  private static synchronized long next(Configuration conf) {
    if (random == null) {
      random = new Random(conf.getLong(SEED_KEY, 1));
    }
    lastMs += -1000 * Math.log(1 - random.nextDouble()) / conf.getDouble(PER_SECOND_KEY, 1);
    return Math.round(lastMs);
  }
}

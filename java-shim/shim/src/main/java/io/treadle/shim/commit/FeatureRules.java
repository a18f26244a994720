package io.treadle.shim.commit;

import io.treadle.shim.SchedulerPort;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Features of the CapacityScheduler that enforce cannot serve: they are refused aloud, never silently lost. What
 * becomes of all the others is written in docs/features.md.
 */
public final class FeatureRules {
  static final String LAZY_PREEMPTION = "yarn.scheduler.capacity.lazy-preemption-enabled";
  static final String MULTI_NODE_PLACEMENT = "yarn.scheduler.capacity.multi-node-placement-enabled";

  private final SchedulerPort port;

  /** Rules for one scheduler. */
  public FeatureRules(SchedulerPort port) {
    this.port = port;
  }

  /**
   * Why proposals must not be committed on this site, as it is configured now.
   *
   * @return a sentence for the administrator that names the key to change, or null if nothing is against it
   */
  public String refusal() {
    Configuration conf = port.scheduler().getConfiguration();
    if (conf.getBoolean(LAZY_PREEMPTION, false)
        && conf.getBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, false)) {
      return "lazy preemption only marks containers and leaves the killing to the placements of the stock scheduler:"
          + " set " + LAZY_PREEMPTION + " to false";
    }
    if (conf.getBoolean(MULTI_NODE_PLACEMENT, false)) {
      return "multi-node placement orders the nodes by a policy of its own, which the engine does not follow: set "
          + MULTI_NODE_PLACEMENT + " to false";
    }
    return null;
  }
}

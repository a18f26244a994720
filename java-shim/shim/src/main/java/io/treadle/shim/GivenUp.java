package io.treadle.shim;

import io.treadle.shim.constraints.Requirements;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Applications that one of several engines gives up go to another; their diagnostics report it. Its link's thread. */
final class GivenUp {
  private static final Logger LOG = LoggerFactory.getLogger(GivenUp.class);

  private final SchedulerPort port;
  private final EngineHandle engine;
  private final ShimMetrics metrics;

  GivenUp(SchedulerPort port, EngineHandle engine, ShimMetrics metrics) {
    this.port = port;
    this.engine = engine;
    this.metrics = metrics;
  }

  /** Lets other engines serve applications, if any other is alive. */
  void take(Map<Integer, String> said, Directory directory) {
    said.forEach((index, why) -> {
      ApplicationAttemptId attempt = directory.applicationOrNull(index);
      FiCaSchedulerApp app = attempt == null ? null : port.scheduler().getApplicationAttempt(attempt);
      if (app != null && app.getApplicationAttemptId().equals(attempt)) {
        giveUp(app, why);
      }
    });
  }

  private void giveUp(FiCaSchedulerApp app, String why) {
    String other = engine.giveUp(app);
    if (other == null) {
      return;
    }
    metrics.add(ShimMetrics.Counter.GIVEN_UP, 1);
    LOG.warn("Treadle: {} is served by engine {} from now on: {}", app.getApplicationId(), other, why);
    RMApp known = port.rmContext().getRMApps().get(app.getApplicationId());
    if (known != null) {
      Requirements.report(known, app.getApplicationAttemptId(), "Treadle: " + why + "; engine " + other + " serves it now");
    }
  }
}

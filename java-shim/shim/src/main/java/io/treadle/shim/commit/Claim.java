package io.treadle.shim.commit;

import io.treadle.shim.engines.Served;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Bounds what the applications of one engine use of each partition, AMs included. What they use is added up once a
 * batch, and only of an engine that has a claim; the caller holds a lock of the scheduler from {@link #begin} on.
 */
final class Claim {
  private final CapacityScheduler scheduler;
  private final Served served;
  private final Map<String, Resource> used = new HashMap<>();
  private final Map<String, Resource> bounds = new HashMap<>();

  Claim(CapacityScheduler scheduler, Served served) {
    this.scheduler = scheduler;
    this.served = served;
  }

  void begin() {
    if (!used.isEmpty()) {
      used.clear();
      bounds.clear();
    }
  }

  /**
   * Whether a placement would exceed it.
   *
   * @param assumed counts as used besides what is committed
   */
  boolean isExceededBy(Placement placement, Resource cluster, Assumptions assumed) {
    double part = served.claim();
    if (part >= 1) {
      return false;
    }
    String partition = placement.node.getPartition();
    Resource sum = Resources.add(used.computeIfAbsent(partition, this::addUp), placement.capability);
    Resource more = assumed.used(this, partition);
    if (more != null) {
      Resources.addTo(sum, more);
    }
    return !Resources.fitsIn(scheduler.getResourceCalculator(), sum,
        bounds.computeIfAbsent(partition, name -> bound(name, cluster, part)));
  }

  private Resource bound(String partition, Resource cluster, double part) {
    RMNodeLabelsManager labels = scheduler.getRMContext().getNodeLabelManager();
    return Resources.multiplyAndRoundDown(labels.getResourceByLabel(partition, cluster), part);
  }

  private Resource addUp(String partition) {
    Resource sum = Resources.createResource(0, 0);
    for (SchedulerApplication<FiCaSchedulerApp> known : scheduler.getSchedulerApplications().values()) {
      FiCaSchedulerApp app = known.getCurrentAppAttempt();
      if (app != null && served.serves(app)) {
        Resources.addTo(sum, app.getAppAttemptResourceUsage().getUsed(partition));
      }
    }
    return sum;
  }

  /** A placement was committed. */
  void committed(Placement placement) {
    Resource sum = used.get(placement.node.getPartition());
    if (sum != null) {
      Resources.addTo(sum, placement.capability);
    }
  }
}

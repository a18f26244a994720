// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import io.treadle.shim.Log;
import java.util.Optional;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.activities.DiagnosticsCollector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator;

/**
 * Keeps the stock scheduler to what applications require of nodes, with an engine, without one, and under a plain
 * CapacityScheduler: set it as {@code yarn.scheduler.app-placement-allocator.class} (Hadoop 3.4 on). One is made for
 * each request key. Application masters may go anywhere, and a container that is to be resized stays where it is.
 *
 * @param <N> the scheduler's kind of node
 */
public class TreadlePlacementAllocator<N extends SchedulerNode> extends LocalityAppPlacementAllocator<N> {
  private static final Log LOG = new Log(TreadlePlacementAllocator.class);

  private volatile Requirement requirement;

  @Override
  public boolean precheckNode(SchedulerNode node, SchedulingMode mode, Optional<DiagnosticsCollector> collector) {
    return super.precheckNode(node, mode, collector) && admits(node);
  }

  @Override
  public boolean canAllocate(NodeType type, SchedulerNode node) {
    return super.canAllocate(type, node) && admits(node);
  }

  private boolean admits(SchedulerNode node) {
    try {
      Requirement required = requirement();
      if (required.isNone() || schedulerRequestKey.getContainerToUpdate() != null) {
        return true;
      }
      return required.admits(node) || isExempt(required);
    } catch (RuntimeException e) {
      LOG.failure("reading what " + appSchedulingInfo.getApplicationId() + " requires, whose asks wait", e);
      return false;
    }
  }

  private Requirement requirement() {
    Requirement known = requirement;
    if (known != null) {
      return known;
    }
    RMApp app = app();
    Requirement found = Requirements.of(app);
    if (app != null) {
      requirement = found;
    }
    return found;
  }

  private RMApp app() {
    return rmContext.getRMApps().get(appSchedulingInfo.getApplicationId());
  }

  private boolean isExempt(Requirement required) {
    ApplicationAttemptId attempt = appSchedulingInfo.getApplicationAttemptId();
    RMApp app = app();
    if (Requirements.awaitsMaster(app, attempt)) {
      return true;
    }
    if (required.error() != null) {
      Requirements.report(app, attempt, required.error());
    }
    return false;
  }
}

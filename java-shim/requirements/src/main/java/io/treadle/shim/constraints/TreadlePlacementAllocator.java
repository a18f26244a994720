// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.activities.DiagnosticsCollector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Holds placements to what applications require of nodes: those of the stock scheduler, with an engine, without one and
 * under a plain CapacityScheduler, and commits of an engine's proposals, which ask {@link #precheckNode} too. Set it as
 * {@code yarn.scheduler.app-placement-allocator.class} (Hadoop 3.4 on). One is made for each request key. Application
 * masters may go anywhere, and a container that is to be resized stays where it is.
 *
 * @param <N> the scheduler's kind of node
 */
public class TreadlePlacementAllocator<N extends SchedulerNode> extends LocalityAppPlacementAllocator<N> {
  private static final Logger LOG = LoggerFactory.getLogger(TreadlePlacementAllocator.class);
  /** Failures that are logged: a node is looked at for each ask, many times a second. */
  private static final AtomicInteger LOGS_LEFT = new AtomicInteger(16);

  private volatile Requirement requirement;

  @Override
  public boolean precheckNode(SchedulerNode node, SchedulingMode mode, Optional<DiagnosticsCollector> collector) {
    return super.precheckNode(node, mode, collector) && admits(node);
  }

  @Override
  public boolean canAllocate(NodeType type, SchedulerNode node) {
    return super.canAllocate(type, node) && admits(node);
  }

  /** Whether the node will do. What cannot be judged now will not, and is asked again. Throws nothing. */
  private boolean admits(SchedulerNode node) {
    try {
      Requirement required = requirement();
      if (required.isNone() || schedulerRequestKey.getContainerToUpdate() != null) {
        return true;
      }
      return required.admits(node) || isExempt(required);
    } catch (RuntimeException e) {
      if (LOGS_LEFT.get() > 0 && LOGS_LEFT.getAndDecrement() > 0) {
        LOG.error("{} waits: comparing node {} with what it requires failed", appSchedulingInfo.getApplicationId(),
            node.getNodeID(), e);
      }
      return false;
    }
  }

  private Requirement requirement() {
    if (requirement == null) {
      RMApp app = app();
      Requirement found = Requirement.of(app);
      if (app == null) {
        return found;
      }
      requirement = found;
    }
    return requirement;
  }

  private RMApp app() {
    return rmContext.getRMApps().get(appSchedulingInfo.getApplicationId());
  }

  /**
   * Whether the container is the application master's. Found without a lock: commits hold the scheduler's, and other
   * threads hold the application's and wait for that.
   */
  private boolean isExempt(Requirement required) {
    ApplicationAttemptId id = appSchedulingInfo.getApplicationAttemptId();
    RMApp app = app();
    RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
    if (attempt == null || !id.equals(attempt.getAppAttemptId())) {
      return false;
    }
    if (attempt.getMasterContainer() == null && !attempt.getSubmissionContext().getUnmanagedAM()) {
      return true;
    }
    if (required.error != null) {
      attempt.updateAMLaunchDiagnostics(required.error);
    }
    return false;
  }
}

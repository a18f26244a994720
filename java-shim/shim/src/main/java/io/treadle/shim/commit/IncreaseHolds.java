// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.SchedulerPort;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Holds the room that increases and promotions wait for, where the stock scheduler would reserve it: one at a time on a
 * node, and all of them together within the limits of users and queues. Used by the link thread only.
 */
final class IncreaseHolds {
  /** How often limits are looked at again. */
  private static final long LIMITS_EVERY_MS = 1000;

  private final SchedulerPort port;
  private final EngineView view;
  private final Supplier<Checks> checks;
  private final Map<NodeId, Hold> holds = new HashMap<>();
  private Assumptions taken = new Assumptions();

  IncreaseHolds(SchedulerPort port, EngineView view, Supplier<Checks> checks) {
    this.port = port;
    this.view = view;
    this.checks = checks;
  }

  /** The amount held on one node. */
  private static final class Hold {
    private final Placement placement;
    private final long limitsMs;
    /** The latest round that has found the update waiting. */
    private ContainerUpdates.Round round;
    private int number;

    Hold(Placement placement, ContainerUpdates.Round round, long nowMs) {
      this.placement = placement;
      this.round = round;
      this.number = round.number;
      this.limitsMs = nowMs;
    }

    boolean isFor(FiCaSchedulerApp app, SchedulerRequestKey key) {
      return placement.app == app && placement.key.equals(key);
    }
  }

  /** Ends holds for updates that the last round of their application has not found, or of attempts that have ended. */
  void expire() {
    release(hold -> hold.number < hold.round.ended || hold.placement.app.isStopped());
  }

  /** Ends all holds. */
  void clear() {
    release(hold -> true);
  }

  private void release(Predicate<Hold> condition) {
    holds.values().stream().filter(condition).collect(Collectors.toList()).forEach(this::release);
  }

  private void release(Hold hold) {
    NodeId node = hold.placement.node.getNodeID();
    holds.remove(node);
    taken.remove(hold.placement);
    if (holds.isEmpty()) {
      taken = new Assumptions();
    }
    view.hold(node, null);
  }

  /** Whether a node has room for an update next to what is held for others. */
  boolean leaveRoom(FiCaSchedulerApp app, SchedulerRequestKey key, FiCaSchedulerNode node, Resource amount) {
    Hold hold = holds.get(node.getNodeID());
    Resource free = node.getUnallocatedResource();
    return Resources.fitsIn(port.scheduler().getResourceCalculator(), amount,
        hold == null || hold.isFor(app, key) ? free : Resources.subtract(free, hold.placement.capability));
  }

  /** Whether the node of an update is to be held now: nothing is held there, or it is time to look again. */
  boolean isDue(FiCaSchedulerApp app, SchedulerRequestKey key, ContainerUpdates.Round round, NodeId node,
      Resource amount, long nowMs) {
    Hold hold = holds.get(node);
    if (hold == null) {
      return true;
    }
    if (!hold.isFor(app, key)) {
      return false;
    }
    hold.round = round;
    hold.number = round.number;
    return nowMs - hold.limitsMs >= LIMITS_EVERY_MS || !hold.placement.capability.equals(amount);
  }

  /**
   * Holds the room of a placement if its user and queue may use so much and the node has it at all. The caller holds a
   * lock of the scheduler.
   */
  void hold(Placement placement, RMContainer container, ContainerUpdates.Round round, long nowMs) {
    NodeId node = placement.node.getNodeID();
    Hold before = holds.get(node);
    if (before != null) {
      release(before);
    }
    Resource most = Resources.subtract(placement.node.getTotalResource(), container.getAllocatedResource());
    if (!Resources.fitsIn(port.scheduler().getResourceCalculator(), placement.capability, most)
        || isOverLimit(placement, container)) {
      return;
    }
    holds.put(node, new Hold(placement, round, nowMs));
    taken.add(placement);
    view.hold(node, placement.capability);
  }

  /** The resources come from other containers that end here: their usage no longer counts against their queues then. */
  private boolean isOverLimit(Placement placement, RMContainer container) {
    List<RMContainer> others = placement.node.getCopiedListOfRunningContainers();
    others.remove(container);
    others.forEach(other -> count(other, placement, -1));
    try {
      return checks.get().limitAgainst(placement, taken) != null;
    } finally {
      others.forEach(other -> count(other, placement, 1));
    }
  }

  private void count(RMContainer other, Placement placement, int sign) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(other.getApplicationAttemptId());
    for (CSQueue queue = app == null ? null : (CSQueue) app.getQueue(); queue != null; queue = queue.getParent()) {
      if ((placement.leaf.getQueuePath() + ".").startsWith(queue.getQueuePath() + ".")) {
        taken.take(queue, placement.node.getPartition(), Resources.multiply(other.getAllocatedResource(), sign));
      }
    }
  }
}

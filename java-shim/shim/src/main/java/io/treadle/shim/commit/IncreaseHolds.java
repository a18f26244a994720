// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Holds the room that increases and promotions wait for, where the stock scheduler would reserve it: one at a time on a
 * node, and all of them together within the limits of users and queues. Used by the link thread only.
 */
final class IncreaseHolds {
  /** How often limits are looked at again. */
  private static final long LIMITS_EVERY_MS = 1000;
  /** A hold that was not asked for again for so long ends. */
  private static final long LONGEST_MS = 10_000;

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
    private long wantedMs;

    Hold(Placement placement, long nowMs) {
      this.placement = placement;
      this.limitsMs = nowMs;
      this.wantedMs = nowMs;
    }

    boolean isFor(FiCaSchedulerApp app, SchedulerRequestKey key) {
      return placement.app == app && placement.key.equals(key);
    }
  }

  /** Ends the holds of an application for other keys than these. */
  void keepOnly(FiCaSchedulerApp app, List<SchedulerRequestKey> keys) {
    release(hold -> hold.placement.app == app && !keys.contains(hold.placement.key));
  }

  /** Ends holds that nothing has asked for lately, or of attempts that have ended. */
  void expire(long nowMs) {
    release(hold -> nowMs - hold.wantedMs > LONGEST_MS || hold.placement.app.isStopped());
  }

  /** Ends all holds. */
  void clear() {
    release(hold -> true);
  }

  private void release(Predicate<Hold> condition) {
    if (!holds.isEmpty()) {
      List<Hold> ended = new ArrayList<>(holds.values());
      ended.removeIf(condition.negate());
      ended.forEach(this::release);
    }
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

  /** Whether the node of a placement is to be asked for now: nothing is held there, or it is time to look again. */
  boolean isDue(FiCaSchedulerApp app, SchedulerRequestKey key, NodeId node, Resource amount, long nowMs) {
    Hold hold = holds.get(node);
    if (hold == null) {
      return true;
    }
    if (!hold.isFor(app, key)) {
      return false;
    }
    hold.wantedMs = nowMs;
    return nowMs - hold.limitsMs >= LIMITS_EVERY_MS || !hold.placement.capability.equals(amount);
  }

  /**
   * Holds the room of a placement if its user and queue may use so much and the node has it at all. The caller holds a
   * lock of the scheduler.
   */
  void hold(Placement placement, RMContainer container, long nowMs) {
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
    holds.put(node, new Hold(placement, nowMs));
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
      if (isAbove(queue, placement.leaf)) {
        taken.take(queue, placement.node.getPartition(), Resources.multiply(other.getAllocatedResource(), sign));
      }
    }
  }

  private static boolean isAbove(CSQueue queue, CSQueue leaf) {
    CSQueue above = leaf;
    while (above != null && above != queue) {
      above = above.getParent();
    }
    return above != null;
  }
}

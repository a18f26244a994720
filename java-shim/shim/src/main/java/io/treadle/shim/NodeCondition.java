// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.wire.Fate;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Whether containers may be placed on a node now. Frames and commits share this answer, so that the engine avoids the
 * nodes on which a proposal would be refused. It learns of a silent node {@link #noticeMs a little earlier}.
 */
public final class NodeCondition {
  private static final long LONGEST_HEAD_START_MS = 500;

  private NodeCondition() {
  }

  /**
   * The heartbeat age after which a node is hidden from the engine, below that after which a commit on it is refused:
   * nodes are looked at in turns. Otherwise a healthy cluster, whose heartbeats are sometimes late, would reject
   * proposals.
   *
   * @param staleAfterMs how old the last heartbeat may be for a commit, milliseconds
   */
  public static long noticeMs(long staleAfterMs) {
    return staleAfterMs - Math.min(staleAfterMs / 4, LONGEST_HEAD_START_MS);
  }

  /**
   * The fate of a placement on a node that is not running (decommissioning, lost, unhealthy and so on), has not been
   * heard of lately, or has a reservation of the stock scheduler's, in this order; null if it may be used. Takes no
   * scheduler lock.
   *
   * @param node a node of the scheduler
   * @param monotonicMs {@code Time.monotonicNow()} as of which the node is judged, milliseconds
   * @param staleAfterMs how old the last heartbeat may be, milliseconds
   */
  public static Fate reasonAgainst(FiCaSchedulerNode node, long monotonicMs, long staleAfterMs) {
    if (node.getRMNode().getState() != NodeState.RUNNING) {
      return Fate.NODE_NOT_RUNNING;
    }
    if (monotonicMs - node.getLastHeartbeatMonotonicTime() > staleAfterMs) {
      return Fate.NODE_STALE;
    }
    return node.getReservedContainer() == null ? null : Fate.NODE_RESERVED;
  }
}

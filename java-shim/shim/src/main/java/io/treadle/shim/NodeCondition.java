// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Whether containers may be placed on a node now. Frames and commits share this answer, so that the engine avoids the
 * nodes on which a proposal would be refused. It learns of a silent node {@link #noticeMs a little earlier}.
 */
public enum NodeCondition {
  /** Running, heard of lately, not reserved. */
  USABLE,
  /** Any state but RUNNING: decommissioning, lost, unhealthy and so on. */
  NOT_RUNNING,
  /** Running, but without a recent heartbeat. */
  STALE,
  /** The stock scheduler made a reservation on it that is not released yet. */
  RESERVED;

  private static final long LONGEST_HEAD_START_MS = 500;

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
   * The condition of a node; of several reasons against it, the first in the order of the constants. Takes no
   * scheduler lock.
   *
   * @param node a node of the scheduler
   * @param monotonicMs {@code Time.monotonicNow()} as of which the node is judged, milliseconds
   * @param staleAfterMs how old the last heartbeat may be, milliseconds
   */
  public static NodeCondition of(FiCaSchedulerNode node, long monotonicMs, long staleAfterMs) {
    if (node.getRMNode().getState() != NodeState.RUNNING) {
      return NOT_RUNNING;
    }
    if (monotonicMs - node.getLastHeartbeatMonotonicTime() > staleAfterMs) {
      return STALE;
    }
    return node.getReservedContainer() == null ? USABLE : RESERVED;
  }
}

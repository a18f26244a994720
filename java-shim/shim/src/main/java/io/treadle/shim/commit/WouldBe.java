// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongUnaryOperator;
import org.apache.hadoop.yarn.api.records.NodeId;

/** The containers of one request key: which Treadle proposes, and which the stock scheduler placed before that. */
final class WouldBe {
  private static final int MOST = 1000;
  /** How long a rejection is known to be a repeated one, milliseconds. */
  private static final long REJECTIONS_KEPT_MS = 600_000;

  private final Agreement[] tallies;
  private final List<At> proposed = new ArrayList<>();
  private final List<At> unproposed = new ArrayList<>();
  private final Set<Fate> rejected = EnumSet.noneOf(Fate.class);
  private long rejectedMs;

  /** Nothing is known of the key; what becomes of its containers is counted in {@code tallies}. */
  WouldBe(Agreement... tallies) {
    this.tallies = tallies;
  }

  /**
   * Takes in what one answer proposes: how many containers on which node. An engine repeats itself in each answer until
   * they are placed, so only what goes beyond the answer before is new. A container keeps the node that was proposed
   * first.
   */
  void propose(Map<NodeId, Integer> nodes, long nowMs) {
    List<At> elsewhere = new ArrayList<>();
    for (At container : proposed) {
      if (takeOne(nodes, container.node)) {
        container.renewedMs = nowMs;
      } else {
        elsewhere.add(container);
      }
    }
    for (At container : elsewhere) {
      if (nodes.isEmpty()) {
        return;
      }
      takeOne(nodes, nodes.keySet().iterator().next());
      container.renewedMs = nowMs;
    }
    nodes.forEach((node, count) -> {
      for (int i = 0; i < count && proposed.size() < MOST; i++) {
        proposed.add(new At(node, nowMs));
      }
    });
  }

  private static boolean takeOne(Map<NodeId, Integer> nodes, NodeId node) {
    Integer count = nodes.get(node);
    if (count != null) {
      nodes.compute(node, (same, left) -> left == 1 ? null : left - 1);
    }
    return count != null;
  }

  /** An answer proposes what is asked for no longer: perhaps what stock has placed since the engine was asked. */
  void proposedLate(NodeId node, long nowMs) {
    if (!unproposed.isEmpty()) {
      match(unproposed, node, at -> at - nowMs);
    }
  }

  /** Whether a proposal was rejected for a reason for which none was since something was placed. */
  boolean isRejectedAnew(Fate reason, long nowMs) {
    rejectedMs = nowMs;
    return rejected.add(reason);
  }

  /** The stock scheduler has placed a container. */
  void placed(NodeId node, long atMs) {
    rejected.clear();
    if (!proposed.isEmpty()) {
      match(proposed, node, at -> Math.max(0, atMs - at));
    } else if (unproposed.size() < MOST) {
      unproposed.add(new At(node, atMs));
    } else {
      count(Agreement.Count.STOCK_ONLY, 1);
    }
  }

  /** Takes one off that belongs to a node, from the same node if there is one, or the oldest. */
  private void match(List<At> among, NodeId node, LongUnaryOperator earlierMs) {
    int index = 0;
    while (index < among.size() && !among.get(index).node.equals(node)) {
      index++;
    }
    boolean same = index < among.size();
    long ms = earlierMs.applyAsLong(among.remove(same ? index : 0).sinceMs);
    count(same ? Agreement.Count.SAME_NODE : Agreement.Count.OTHER_NODE, 1);
    count(ms < 0 ? Agreement.Count.LATER : Agreement.Count.EARLIER, 1);
    count(ms < 0 ? Agreement.Count.LATER_MS : Agreement.Count.EARLIER_MS, Math.abs(ms));
  }

  private void count(Agreement.Count what, long more) {
    for (Agreement tally : tallies) {
      tally.add(what, more);
    }
  }

  /** Counts what stock placed a window ago, and forgets what is not proposed any more; whether nothing is left. */
  boolean expire(long nowMs, long windowMs) {
    proposed.removeIf(container -> nowMs - container.renewedMs > windowMs);
    while (!unproposed.isEmpty() && nowMs - unproposed.get(0).sinceMs > windowMs) {
      unproposed.remove(0);
      count(Agreement.Count.STOCK_ONLY, 1);
    }
    return proposed.isEmpty() && unproposed.isEmpty()
        && (rejected.isEmpty() || nowMs - rejectedMs > REJECTIONS_KEPT_MS);
  }

  /** Adds what is proposed now to the tallies. */
  void addWaiting() {
    count(Agreement.Count.WAITING, proposed.size());
  }

  /** A container that was proposed on a node, or placed there, since a time. */
  private static final class At {
    private final NodeId node;
    private final long sinceMs;
    private long renewedMs;

    At(NodeId node, long nowMs) {
      this.node = node;
      this.sinceMs = nowMs;
      this.renewedMs = nowMs;
    }
  }
}

package io.treadle.shim.commit;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.NodeId;

/** The placements that an engine proposed for one request key and that the stock scheduler has not made yet. */
final class WouldBe {
  private static final int MOST_NODES = 1000;

  final String queue;
  final String framework;
  private final Map<NodeId, Open> nodes = new HashMap<>();

  WouldBe(String queue, String framework) {
    this.queue = queue;
    this.framework = framework;
  }

  /**
   * Notes a proposal. An engine repeats itself in each answer, so only more of the same in one answer counts as more.
   */
  void propose(NodeId node, long answer, long nowMs) {
    Open open = nodes.get(node);
    if (open == null) {
      if (nodes.size() >= MOST_NODES) {
        return;
      }
      open = new Open(nowMs);
      nodes.put(node, open);
    }
    if (open.answer != answer) {
      open.answer = answer;
      open.inAnswer = 0;
    }
    open.inAnswer++;
    open.renewedMs = nowMs;
    if (open.inAnswer > open.count + open.missed) {
      if (open.count == 0) {
        open.openedMs = nowMs;
      }
      open.count++;
    }
  }

  /** Takes a placement by the stock scheduler off, from the same node if one was proposed there. */
  void placed(NodeId node, Agreement... tallies) {
    Open here = nodes.get(node);
    if (here != null && here.count > 0) {
      here.count--;
      for (Agreement tally : tallies) {
        tally.agreed.increment();
      }
      return;
    }
    for (Open elsewhere : nodes.values()) {
      if (elsewhere.count > 0) {
        elsewhere.count--;
        for (Agreement tally : tallies) {
          tally.otherNode.increment();
        }
        return;
      }
    }
    for (Agreement tally : tallies) {
      tally.stockOnly.increment();
    }
  }

  /**
   * Counts what was proposed for a window and not placed, once, and forgets what is not proposed any more: an engine
   * that has changed its mind, or heard late of a placement, has stopped in the first half of the window.
   *
   * @return whether nothing is left
   */
  boolean expire(long nowMs, long windowMs, Agreement... tallies) {
    for (Iterator<Open> all = nodes.values().iterator(); all.hasNext(); ) {
      Open open = all.next();
      if (open.count > 0 && nowMs - open.openedMs > windowMs) {
        if (open.renewedMs - open.openedMs >= windowMs / 2) {
          for (Agreement tally : tallies) {
            tally.treadleOnly.add(open.count);
          }
          open.missed += open.count;
        }
        open.count = 0;
      }
      if (open.count == 0 && nowMs - open.renewedMs > windowMs) {
        all.remove();
      }
    }
    return nodes.isEmpty();
  }

  /** What is proposed on one node. */
  private static final class Open {
    /** When the first that still waits was proposed. */
    long openedMs;
    long renewedMs;
    /** The answer that was looked at last, and how often it proposed this. */
    long answer = Long.MIN_VALUE;
    int inAnswer;
    /** Waiting for the stock scheduler. */
    int count;
    /** Given up on: counted as Treadle's only, although an engine may go on proposing it. */
    int missed;

    Open(long openedMs) {
      this.openedMs = openedMs;
    }
  }
}

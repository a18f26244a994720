package io.treadle.shim.engines;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * By whom something was committed last on which node, in the count of all commits. Each successful {@code tryCommit}
 * raises it, the stock scheduler's without a lock too; ends of containers, which only make room, do not. Any thread.
 */
public final class NodeCommits {
  /** Who commits, if no engine does: the stock scheduler, or the shim for an AM's update. */
  public static final int NO_ENGINE = 8 * Roster.ENGINES_MAX;
  private static final int NODES_MAX = 1 << 17;

  private final AtomicLong count = new AtomicLong();
  private final Map<NodeId, AtomicLongArray> last = new ConcurrentHashMap<>();
  /** All that was before is forgotten. */
  private volatile long forgotten;

  /** How much was committed. */
  public long count() {
    return count.get();
  }

  /** Something was committed on a node, by the engine of a number or by {@link #NO_ENGINE}. */
  public void committed(NodeId node, int by) {
    if (last.size() >= NODES_MAX) {
      forgotten = count.get();
      last.clear();
    }
    last.computeIfAbsent(node, any -> new AtomicLongArray(NO_ENGINE + 1))
        .accumulateAndGet(by, count.incrementAndGet(), Math::max);
  }

  /** Whether anybody but the engine of a number has committed on a node after the {@code since}-th of all commits. */
  public boolean changed(NodeId node, int mine, long since) {
    AtomicLongArray commits = last.get(node);
    boolean changed = since < forgotten;
    for (int by = 0; commits != null && by <= NO_ENGINE; by++) {
      changed |= by != mine && commits.get(by) > since;
    }
    return changed;
  }
}

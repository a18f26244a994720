// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.QueueState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FairOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Writes the queue tree, whole, when anything in it changed. Walking it is cheap but not free, and every application
 * that comes may have made a queue, so it is walked at most every {@value #WALK_MS} ms unless somebody names a queue
 * that is not known.
 */
final class QueueSection {
  private static final long WALK_MS = 100;
  private static final long REVIEW_MS = 1000;

  private final Map<String, Integer> indices = new HashMap<>();
  private Map<CSQueue, Row> rows = new IdentityHashMap<>();
  private List<Said> sent = Collections.emptyList();
  private long walkedMs;
  private boolean changed;
  private boolean unknown;
  private int size;

  /** Forgets all indices; the next {@link #update} walks the tree and writes it. */
  void reset() {
    indices.clear();
    size = 0;
    rows = new IdentityHashMap<>();
    sent = Collections.emptyList();
    unknown = true;
  }

  /** The tree may have changed. */
  void markChanged() {
    changed = true;
  }

  /**
   * Walks the tree if it is time to.
   *
   * @return whether it was walked, so that everything about queues has to be looked at
   */
  boolean update(Draft draft) {
    long ageMs = draft.monotonicMs - walkedMs;
    if (!unknown && ageMs < (changed ? WALK_MS : REVIEW_MS)) {
      return false;
    }
    walk(draft);
    return true;
  }

  private void walk(Draft draft) {
    walkedMs = draft.monotonicMs;
    changed = false;
    unknown = false;
    // a leaf that became a parent is another object, and has the index of its path
    Map<Integer, Row> before = new HashMap<>();
    rows.values().forEach(row -> before.put(row.index, row));
    rows = new IdentityHashMap<>();
    List<Said> now = new ArrayList<>();
    visit(draft, draft.scheduler.getRootQueue(), null, before, now);
    indices.values().retainAll(rows.values().stream().map(row -> row.index).collect(Collectors.toSet()));
    if (now.equals(sent)) {
      return;
    }
    sent = now;
    now.forEach(row -> row.write(draft));
  }

  private void visit(Draft draft, CSQueue queue, Row parent, Map<Integer, Row> before, List<Said> now) {
    boolean leaf = LeafQueues.isLeaf(queue);
    String path = queue.getQueuePath();
    Row row = new Row(index(path), queue, parent, leaf);
    Row old = before.get(row.index);
    if (old != null) {
      row.limits.putAll(old.limits);
    }
    rows.put(queue, row);
    now.add(new Said(draft, row, path));
    List<CSQueue> children = queue.getChildQueues();
    if (children != null) {
      for (CSQueue child : children) {
        visit(draft, child, row, before, now);
      }
    }
  }

  private static int state(QueueState state) {
    if (state == QueueState.RUNNING) {
      return 1;
    }
    return state == QueueState.DRAINING ? 2 : 0;
  }

  /** Of a leaf {@code fifo}, {@code fair} or the class of its policy; of a parent what is configured. */
  private static String policy(Draft draft, CSQueue queue, String path) {
    if (!LeafQueues.isLeaf(queue)) {
      return draft.scheduler.getConfiguration()
          .get("yarn.scheduler.capacity." + path + ".ordering-policy", "utilization").trim();
    }
    OrderingPolicy<?> policy = LeafQueues.orderingPolicy(queue);
    if (policy.getClass() == FifoOrderingPolicy.class) {
      return "fifo";
    }
    return policy.getClass() == FairOrderingPolicy.class ? "fair" : policy.getClass().getName();
  }

  private static boolean sizeBasedWeight(CSQueue queue) {
    if (!LeafQueues.isLeaf(queue)) {
      return false;
    }
    OrderingPolicy<?> policy = LeafQueues.orderingPolicy(queue);
    return policy instanceof FairOrderingPolicy && ((FairOrderingPolicy<?>) policy).getSizeBasedWeight();
  }

  /** The index of a queue by its path. */
  private int index(String path) {
    Integer index = indices.get(path);
    if (index == null) {
      index = size++;
      indices.put(path, index);
    }
    return index;
  }

  /** The index of a queue; a queue that is not in the tree yet gets one, and the tree is walked in this frame. */
  int index(CSQueue queue) {
    Row row = rows.get(queue);
    if (row != null) {
      return row.index;
    }
    unknown = true;
    return index(queue.getQueuePath());
  }

  /** A queue of the tree as last walked, or null. */
  Row row(CSQueue queue) {
    return rows.get(queue);
  }

  /** All queues of the tree. */
  Collection<Row> rows() {
    return rows.values();
  }

  /** How many indices were given out. */
  int size() {
    return size;
  }

  /** What was sent of a queue. */
  private static final class Said {
    private final int index;
    private final int parent;
    private final String path;
    private final int state;
    private final boolean leaf;
    private final String policy;
    private final boolean sizeBasedWeight;
    private final int priority;

    Said(Draft draft, Row row, String path) {
      Priority level = row.queue.getPriority();
      this.index = row.index;
      this.parent = row.parent == null ? -1 : row.parent.index;
      this.path = path;
      this.state = state(row.queue.getState());
      this.leaf = row.leaf;
      this.policy = policy(draft, row.queue, path);
      this.sizeBasedWeight = sizeBasedWeight(row.queue);
      this.priority = level == null ? 0 : level.getPriority();
    }

    void write(Draft draft) {
      draft.section(Section.QUEUES).i32(index).i32(parent).name(draft.name(path)).u8(state).flag(leaf)
          .name(draft.name(policy)).flag(sizeBasedWeight).i32(priority).end();
    }

    @Override
    public boolean equals(Object other) {
      Said that = other instanceof Said ? (Said) other : null;
      return that != null && index == that.index && parent == that.parent && path.equals(that.path)
          && state == that.state && leaf == that.leaf && policy.equals(that.policy)
          && sizeBasedWeight == that.sizeBasedWeight && priority == that.priority;
    }

    @Override
    public int hashCode() {
      return path.hashCode();
    }
  }

  /** A queue of the current tree, with the limits that were sent last. */
  static final class Row {
    final int index;
    final CSQueue queue;
    /** The queue above it, null for the root. */
    final Row parent;
    final boolean leaf;
    /** By partition: guaranteed, maximum, used, pending, AM limit, AM used, each of R amounts. */
    final Map<String, long[]> limits = new HashMap<>();

    Row(int index, CSQueue queue, Row parent, boolean leaf) {
      this.index = index;
      this.queue = queue;
      this.parent = parent;
      this.leaf = leaf;
    }
  }
}

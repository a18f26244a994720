package io.treadle.shim.mirror;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;

/** A queue of the current tree, with the limits that were sent last. */
final class QueueRow {
  private final int index;
  private final CSQueue queue;
  private final QueueRow parent;
  private final boolean leaf;
  /** By partition: guaranteed, maximum, used, pending, AM limit, AM used, each of R amounts. */
  private final Map<String, long[]> limits = new HashMap<>();

  QueueRow(int index, CSQueue queue, QueueRow parent, boolean leaf) {
    this.index = index;
    this.queue = queue;
    this.parent = parent;
    this.leaf = leaf;
  }

  int index() {
    return index;
  }

  CSQueue queue() {
    return queue;
  }

  /** The queue above it, null for the root. */
  QueueRow parent() {
    return parent;
  }

  boolean leaf() {
    return leaf;
  }

  Map<String, long[]> limits() {
    return limits;
  }
}

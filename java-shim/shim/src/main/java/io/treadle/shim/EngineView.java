// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;

/**
 * Where the engine is shown less than the scheduler has: room on nodes that is kept for increases of containers there.
 * Commits and the search for asks that could be placed go by it, too. Used by the link thread only.
 */
public final class EngineView {
  private final Map<NodeId, Resource> held = new HashMap<>();
  private final Consumer<NodeId> changed;

  /**
   * Nothing is left out yet.
   *
   * @param changed called with each node on which more or less is held than before
   */
  public EngineView(Consumer<NodeId> changed) {
    this.changed = changed;
  }

  /** The amount held on a node; null for nothing. */
  public Resource held(NodeId node) {
    return held.isEmpty() ? null : held.get(node);
  }

  /** Replaces the amount held on a node; null for nothing. */
  public void hold(NodeId node, Resource amount) {
    Resource before = amount == null ? held.remove(node) : held.put(node, amount);
    if (amount == null ? before != null : !amount.equals(before)) {
      changed.accept(node);
    }
  }
}

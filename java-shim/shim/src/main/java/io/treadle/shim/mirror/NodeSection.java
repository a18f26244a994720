package io.treadle.shim.mirror;

import io.treadle.shim.NodeCondition;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Writes nodes: those that the journal names at once, all others in turns, because a node that goes stale or has its
 * state changed by an administrator causes no event in the scheduler. A row is sent only when it differs from the
 * last one.
 */
final class NodeSection {
  private static final int GONE = 0;
  private static final int USABLE = 1;
  private static final int UNUSABLE = 2;

  private final Map<NodeId, Row> rows = new HashMap<>();
  private final List<Row> byIndex = new ArrayList<>();
  private final Sweep sweep;
  private int present;

  NodeSection(MirrorSettings settings) {
    sweep = new Sweep(settings.nodeReviewMs());
  }

  /** A node that was sent since the last snapshot. */
  private static final class Row {
    private final int index;
    private final NodeId id;
    private String nodeName = "";
    private String rackName = "";
    private String partition = "";
    private int state = GONE;
    private final long[] total;
    private final long[] free;

    Row(int index, NodeId id, int resources) {
      this.index = index;
      this.id = id;
      this.total = new long[resources];
      this.free = new long[resources];
    }
  }

  /** Forgets all indices. */
  void reset() {
    rows.clear();
    byIndex.clear();
    present = 0;
  }

  /** Forgets all indices and writes all nodes. */
  void snapshot(Draft draft) {
    reset();
    sweep.reset(draft.monotonicMs());
    reviewScheduler(draft);
  }

  /** Writes the nodes that changed. */
  void update(Draft draft, Collection<NodeId> changed, boolean all) {
    for (NodeId id : changed) {
      review(draft, id);
    }
    int due = all ? byIndex.size() : sweep.due(byIndex.size(), draft.monotonicMs());
    for (int i = 0; i < due; i++) {
      review(draft, byIndex.get(all ? i : sweep.next(byIndex.size())).id);
    }
    if (all || present != draft.scheduler().getNumClusterNodes()) {
      reviewScheduler(draft);
    }
  }

  private void reviewScheduler(Draft draft) {
    TreeSet<NodeId> ids = new TreeSet<>();
    draft.scheduler().getAllNodes().forEach(node -> ids.add(node.getNodeID()));
    ids.forEach(id -> review(draft, id));
  }

  private void review(Draft draft, NodeId id) {
    FiCaSchedulerNode node = draft.scheduler().getNode(id);
    Row row = rows.get(id);
    if (node == null) {
      if (row != null && row.state != GONE) {
        present--;
        row.state = GONE;
        write(draft, row);
      }
      return;
    }
    if (row == null) {
      row = new Row(byIndex.size(), id, draft.resources());
      rows.put(id, row);
      byIndex.add(row);
    }
    if (row.state == GONE) {
      present++;
    }
    if (take(draft, row, node)) {
      write(draft, row);
    }
  }

  private static boolean take(Draft draft, Row row, FiCaSchedulerNode node) {
    NodeCondition condition = NodeCondition.of(node, draft.monotonicMs(), draft.settings().staleAfterMs());
    int state = condition == NodeCondition.USABLE ? USABLE : UNUSABLE;
    boolean changed = state != row.state || !Objects.equals(node.getPartition(), row.partition)
        || !Objects.equals(node.getNodeName(), row.nodeName) || !Objects.equals(node.getRackName(), row.rackName);
    if (changed) {
      row.state = state;
      row.partition = node.getPartition();
      row.nodeName = node.getNodeName();
      row.rackName = node.getRackName();
    }
    changed |= draft.copy(node.getTotalResource(), row.total, 0);
    changed |= draft.copy(node.getUnallocatedResource(), row.free, 0);
    return changed;
  }

  private static void write(Draft draft, Row row) {
    draft.section(Section.NODES).i32(row.index).name(draft.name(row.nodeName)).name(draft.name(row.rackName))
        .name(draft.name(row.partition)).u8(row.state).amounts(row.total).amounts(row.free).end();
  }

  /** How many indices were given out. */
  int size() {
    return byIndex.size();
  }

  /** The node behind an index, null if it has gone. */
  NodeId id(int index) {
    Row row = byIndex.get(index);
    return row.state == GONE ? null : row.id;
  }

  /** The index of a node, -1 if it has gone or never had one. */
  int index(NodeId id) {
    Row row = rows.get(id);
    return row == null || row.state == GONE ? -1 : row.index;
  }

  /** The name by which a node is asked for; null if it was never sent. */
  String nodeName(NodeId id) {
    Row row = rows.get(id);
    return row == null ? null : row.nodeName;
  }

  /** The rack of a node; null if it was never sent. */
  String rackName(NodeId id) {
    Row row = rows.get(id);
    return row == null ? null : row.rackName;
  }

  /** The names of all nodes and racks that have not gone. */
  Iterable<String> placeNames() {
    Map<String, Boolean> names = new HashMap<>();
    for (Row row : byIndex) {
      if (row.state != GONE) {
        names.put(row.nodeName, true);
        names.put(row.rackName, true);
      }
    }
    return names.keySet();
  }
}

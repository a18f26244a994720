// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.EngineView;
import io.treadle.shim.NodeCondition;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeKey;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Writes nodes: those that the journal names at once, all others in turns, because a node that goes stale or has its
 * state changed by an administrator causes no event in the scheduler. A usable node is passed over until it may have
 * gone stale, at most {@value #TURNS} times. A row is sent only when it differs from the last one.
 */
final class NodeSection {
  private static final int GONE = 0;
  private static final int USABLE = 1;
  private static final int UNUSABLE = 2;
  /** In how many turns a usable node is looked at once, whatever happens: what no event names is noticed by then. */
  private static final int TURNS = 5;
  /** After so long all of the scheduler's nodes are looked at again while their number is another than here. */
  private static final long RECOUNT_MS = 1000;
  /** More attributes of a node are left out. */
  private static final int MAX_ATTRIBUTES = 100;

  private final Map<NodeId, Row> rows = new HashMap<>();
  /** With null where a node has gone. */
  private final List<Row> byIndex = new ArrayList<>();
  private final Indices indices = new Indices(0);
  /** Names of nodes and racks, and how many nodes have each. */
  private final Map<String, Integer> places = new HashMap<>();
  private boolean newPlaces;
  private final Sweep sweep;
  private final EngineView view;
  /** Nodes whose attributes could not be read, since the RM changed them meanwhile. */
  private final Set<NodeId> attributesLater = new HashSet<>();
  private long countedMs;

  NodeSection(MirrorSettings settings, EngineView view) {
    this.view = view;
    sweep = new Sweep(settings.nodeReviewMs);
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
    /** By prefix, a slash and the name. */
    private Map<String, String> attributes = Collections.emptyMap();
    /** Until then it is passed over unless the journal names it. */
    private long dueMs;
    /** The frame in which a narrow row of it was written last. */
    private Draft narrowIn;

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
    indices.reset();
    places.clear();
    attributesLater.clear();
  }

  /** Forgets all indices and writes all nodes. */
  void snapshot(Draft draft) {
    reset();
    sweep.reset(draft.monotonicMs);
    reviewScheduler(draft);
    rows.values().forEach(row -> reviewAttributes(draft, row));
  }

  /** Writes the nodes that changed, and the attributes of those on some hosts. */
  void update(Draft draft, Set<NodeId> changed, Set<String> hosts, boolean all) {
    for (NodeId id : changed) {
      review(draft, id);
    }
    Set<NodeId> again = new HashSet<>(attributesLater);
    attributesLater.clear();
    if (!hosts.isEmpty()) {
      rows.keySet().stream().filter(id -> hosts.contains(id.getHost())).forEach(again::add);
    }
    again.forEach(id -> reviewAttributes(draft, rows.get(id)));
    int due = all ? byIndex.size() : sweep.due(byIndex.size(), draft.monotonicMs);
    for (int i = 0; i < due; i++) {
      Row row = byIndex.get(all ? i : sweep.next(byIndex.size()));
      if (row != null && (all || draft.monotonicMs >= row.dueMs)) {
        review(draft, row.id);
      }
    }
    if (all || miscounted(draft, !changed.isEmpty())) {
      reviewScheduler(draft);
    }
  }

  /**
   * While nodes come and go one may be counted before the journal names it: that is no reason to look at all of them.
   */
  private boolean miscounted(Draft draft, boolean someChanged) {
    return rows.size() != draft.scheduler.getNumClusterNodes()
        && (!someChanged || draft.monotonicMs - countedMs >= RECOUNT_MS);
  }

  /** The scheduler's set of attributes is a view of a map that other threads change. */
  private void reviewAttributes(Draft draft, Row row) {
    FiCaSchedulerNode node = row == null ? null : draft.scheduler.getNode(row.id);
    if (node == null) {
      return;
    }
    Map<String, String> now = new TreeMap<>();
    try {
      Set<NodeAttribute> attributes = node.getNodeAttributes();
      if (attributes != null) {
        for (NodeAttribute attribute : attributes) {
          if (now.size() < MAX_ATTRIBUTES) {
            NodeAttributeKey key = attribute.getAttributeKey();
            now.put(key.getAttributePrefix() + "/" + key.getAttributeName(), "" + attribute.getAttributeValue());
          }
        }
      }
    } catch (RuntimeException e) {
      attributesLater.add(row.id);
      return;
    }
    if (!now.equals(row.attributes)) {
      row.attributes.keySet().stream().filter(name -> !now.containsKey(name))
          .forEach(name -> writeAttribute(draft, row, name, "", false));
      now.forEach((name, value) -> {
        if (!value.equals(row.attributes.get(name))) {
          writeAttribute(draft, row, name, value, true);
        }
      });
      row.attributes = now;
    }
  }

  private static void writeAttribute(Draft draft, Row row, String name, String value, boolean present) {
    draft.section(Section.NODE_ATTRIBUTES).i32(row.index).name(draft.name(name)).name(draft.name(value)).flag(present)
        .end();
  }

  private void reviewScheduler(Draft draft) {
    countedMs = draft.monotonicMs;
    TreeSet<NodeId> ids = new TreeSet<>();
    draft.scheduler.getAllNodes().forEach(node -> ids.add(node.getNodeID()));
    ids.forEach(id -> review(draft, id));
  }

  private void review(Draft draft, NodeId id) {
    FiCaSchedulerNode node = draft.scheduler.getNode(id);
    Row row = rows.get(id);
    if (node == null) {
      if (row != null) {
        remove(draft, row);
      }
      return;
    }
    boolean fresh = row == null;
    if (fresh) {
      row = add(draft, id);
    }
    boolean other = take(draft, row, node);
    row.dueMs = dueMs(draft, row, node);
    Resource kept = view.held(id);
    boolean free = draft.copy(kept == null ? node.getUnallocatedResource()
        : Resources.subtract(node.getUnallocatedResource(), kept), row.free, 0);
    if (other) {
      write(draft, row);
    } else if (free) {
      writeFree(draft, row);
    }
    if (fresh) {
      reviewAttributes(draft, row);
    }
  }

  private Row add(Draft draft, NodeId id) {
    Row row = new Row(indices.take(draft.monotonicMs), id, draft.resources());
    rows.put(id, row);
    if (row.index == byIndex.size()) {
      byIndex.add(row);
    } else {
      byIndex.set(row.index, row);
    }
    return row;
  }

  private void remove(Draft draft, Row row) {
    row.state = GONE;
    // said, too, where they were written earlier in this frame: nodes are read before attributes
    row.attributes.keySet().forEach(name -> writeAttribute(draft, row, name, "", false));
    write(draft, row);
    count(row, -1);
    rows.remove(row.id);
    byIndex.set(row.index, null);
    indices.giveBack(row.index, draft.monotonicMs);
  }

  /** Counts a row's names: one node more has them, or one less. */
  private void count(Row row, int change) {
    for (String name : Arrays.asList(row.nodeName, row.rackName)) {
      newPlaces |= change > 0 && !places.containsKey(name);
      places.merge(name, change, (before, more) -> before + more == 0 ? null : Integer.valueOf(before + more));
    }
  }

  /** When a node has to be looked at again: before that it does not go stale. */
  private static long dueMs(Draft draft, Row row, FiCaSchedulerNode node) {
    return row.state != USABLE ? draft.monotonicMs
        : Math.min(node.getLastHeartbeatMonotonicTime() + draft.settings.staleAfterMs,
            draft.monotonicMs + TURNS * draft.settings.nodeReviewMs);
  }

  private static void writeFree(Draft draft, Row row) {
    row.narrowIn = draft;
    draft.section(Section.NODES_FREE).i32(row.index).amounts(row.free).end();
  }

  /** Takes what has changed but for what is free; returns whether anything has. */
  private boolean take(Draft draft, Row row, FiCaSchedulerNode node) {
    NodeCondition condition = NodeCondition.of(node, draft.monotonicMs, draft.settings.staleAfterMs);
    int state = condition == NodeCondition.USABLE ? USABLE : UNUSABLE;
    boolean changed = state != row.state || !Objects.equals(node.getPartition(), row.partition)
        || !Objects.equals(node.getNodeName(), row.nodeName) || !Objects.equals(node.getRackName(), row.rackName);
    if (changed) {
      if (row.state != GONE) {
        count(row, -1);
      }
      row.state = state;
      row.partition = node.getPartition();
      row.nodeName = node.getNodeName();
      row.rackName = node.getRackName();
      count(row, 1);
    }
    return changed | draft.copy(node.getTotalResource(), row.total, 0);
  }

  private static void write(Draft draft, Row row) {
    draft.section(Section.NODES).i32(row.index).name(draft.name(row.nodeName)).name(draft.name(row.rackName))
        .name(draft.name(row.partition)).u8(row.state).amounts(row.total).amounts(row.free).end();
    if (row.narrowIn == draft) {
      // narrow rows are read after all others: the last one counts
      writeFree(draft, row);
    }
  }

  /** How many indices were given out. */
  int size() {
    return byIndex.size();
  }

  /** The node behind an index, null if it has gone. */
  NodeId id(int index) {
    Row row = byIndex.get(index);
    return row == null ? null : row.id;
  }

  /** The index of a node, -1 if it has gone or was never sent. */
  int index(NodeId id) {
    Row row = rows.get(id);
    return row == null ? -1 : row.index;
  }

  /** The name by which a node is asked for; null if it has gone. */
  String nodeName(NodeId id) {
    Row row = rows.get(id);
    return row == null ? null : row.nodeName;
  }

  /** The rack of a node; null if it has gone. */
  String rackName(NodeId id) {
    Row row = rows.get(id);
    return row == null ? null : row.rackName;
  }

  /** The names of all nodes and racks. */
  Set<String> places() {
    return Collections.unmodifiableSet(places.keySet());
  }

  /** Whether a node or a rack has that name. */
  boolean isPlace(String name) {
    return places.containsKey(name);
  }

  /** Whether there are names that were not there at the last call. */
  boolean takeNewPlaces() {
    boolean taken = newPlaces;
    newPlaces = false;
    return taken;
  }
}

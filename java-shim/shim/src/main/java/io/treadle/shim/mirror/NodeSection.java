// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.NodeCondition;
import io.treadle.shim.wire.Section;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
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
  private Indices<Row> byIndex = new Indices<>(Indices.REST_MS);
  /** Names of nodes and racks, and how many nodes have each. */
  private final Map<String, Integer> places = new HashMap<>();
  private boolean newPlaces;
  private final Sweep sweep;
  private final Map<NodeId, Resource> held;
  /** Nodes whose attributes could not be read, since the RM changed them meanwhile. */
  private final Set<NodeId> attributesLater = new HashSet<>();
  private long countedMs;
  private long frame;

  NodeSection(MirrorSettings settings, Map<NodeId, Resource> held) {
    this.held = held;
    sweep = new Sweep(settings.nodeReviewMs);
  }

  /** Forgets all indices. */
  void reset() {
    rows.clear();
    byIndex = new Indices<>(Indices.REST_MS);
    places.clear();
    attributesLater.clear();
  }

  /** Writes the nodes that changed, and the attributes of those on some hosts. */
  void update(Draft draft, Journal.Changes changes) {
    frame++;
    changes.nodes.forEach(id -> review(draft, id, rows.get(id)));
    changes.steps.forEach(step -> review(draft, step));
    Set<NodeId> again = new HashSet<>(attributesLater);
    attributesLater.clear();
    if (!changes.attributes.isEmpty()) {
      rows.keySet().stream().filter(id -> changes.attributes.contains(id.getHost())).forEach(again::add);
    }
    again.forEach(id -> reviewAttributes(draft, rows.get(id)));
    for (int left = sweep.due(byIndex.size(), draft.monotonicMs); left > 0 && !changes.allNodes; left--) {
      Row row = byIndex.get(sweep.next(byIndex.size()));
      if (row != null && draft.monotonicMs >= row.dueMs) {
        review(draft, row.id, row);
      }
    }
    // while nodes come and go one may be counted before the journal names it: no reason to look at all of them
    boolean counts = changes.nodes.isEmpty() && changes.steps.isEmpty() || draft.monotonicMs - countedMs >= RECOUNT_MS;
    if (changes.allNodes || counts && rows.size() != draft.scheduler.getNumClusterNodes()) {
      reviewAll(draft);
    }
  }

  /** Looks at all nodes that were sent or that the scheduler has. */
  void reviewAll(Draft draft) {
    countedMs = draft.monotonicMs;
    TreeSet<NodeId> ids = new TreeSet<>(rows.keySet());
    draft.scheduler.getAllNodes().forEach(node -> ids.add(node.getNodeID()));
    ids.forEach(id -> review(draft, id, rows.get(id)));
  }

  /** Looks at the node of a step, once a frame. */
  private void review(Draft draft, ContainerStep step) {
    if (step.kind != ContainerStep.LAUNCHED) {
      Row row = rows.get(step.node);
      step.place = row != null && row.reviewedIn == frame ? row : review(draft, step.node, row);
    }
  }

  /** Looks at a node, whose row this is if it has one; returns its row, null if it has gone. */
  private Row review(Draft draft, NodeId id, Row before) {
    FiCaSchedulerNode node = draft.scheduler.getNode(id);
    boolean fresh = before == null;
    if (node == null) {
      if (!fresh) {
        remove(draft, before);
      }
      return null;
    }
    Row row = fresh ? byIndex.add(index -> new Row(index, node), draft.monotonicMs) : before;
    row.reviewedIn = frame;
    List<String> names = Arrays.asList(node.getNodeName(), node.getRackName());
    if (!names.equals(row.names)) {
      count(row, -1);
      row.names = names;
      count(row, 1);
    }
    boolean usable = NodeCondition.reasonAgainst(node, draft.monotonicMs, draft.settings.staleAfterMs) == null;
    // before that it does not go stale
    row.dueMs = !usable ? draft.monotonicMs : Math.min(node.getLastHeartbeatMonotonicTime()
        + draft.settings.staleAfterMs, draft.monotonicMs + TURNS * draft.settings.nodeReviewMs);
    Resource kept = held.get(id);
    row.partition = node.getPartition();
    write(draft, row, usable ? USABLE : UNUSABLE, node.getTotalResource(),
        kept == null ? node.getUnallocatedResource() : Resources.subtract(node.getUnallocatedResource(), kept));
    if (fresh) {
      rows.put(id, row);
      reviewAttributes(draft, row);
    }
    return row;
  }

  private static void write(Draft draft, Row row, int state, Resource total, Resource free) {
    row.sent = draft.section(Section.NODES).add(row.index).add(draft.name(row.names.get(0)))
        .add(draft.name(row.names.get(1))).add(draft.name(row.partition)).add(state).amounts(total).amounts(free)
        .endIfOther(row.sent);
  }

  private void remove(Draft draft, Row row) {
    // said, too, where they were written earlier in this frame: nodes are read before attributes
    row.attributes.keySet().forEach(name -> writeAttribute(draft, row, name, "", false));
    write(draft, row, GONE, null, null);
    count(row, -1);
    rows.remove(row.id);
    byIndex.remove(row.index, draft.monotonicMs);
  }

  /** Counts a row's names: one node more has them, or one less. */
  private void count(Row row, int change) {
    for (String name : row.names) {
      newPlaces |= change > 0 && !places.containsKey(name);
      places.merge(name, change, (before, more) -> before + more == 0 ? null : Integer.valueOf(before + more));
    }
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
      for (NodeAttribute attribute : attributes == null ? Collections.<NodeAttribute>emptySet() : attributes) {
        NodeAttributeKey key = attribute.getAttributeKey();
        if (now.size() < MAX_ATTRIBUTES) {
          now.put(key.getAttributePrefix() + "/" + key.getAttributeName(), "" + attribute.getAttributeValue());
        }
      }
    } catch (RuntimeException e) {
      attributesLater.add(row.id);
      return;
    }
    row.attributes.keySet().stream().filter(name -> !now.containsKey(name))
        .forEach(name -> writeAttribute(draft, row, name, "", false));
    now.entrySet().stream().filter(entry -> !entry.getValue().equals(row.attributes.get(entry.getKey())))
        .forEach(entry -> writeAttribute(draft, row, entry.getKey(), entry.getValue(), true));
    row.attributes = now;
  }

  private static void writeAttribute(Draft draft, Row row, String name, String value, boolean present) {
    draft.section(Section.NODE_ATTRIBUTES).add(row.index).add(draft.name(name)).add(draft.name(value)).flag(present)
        .end();
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

  /** The index of the node of a step, -1 if it has gone or was never sent. */
  int index(ContainerStep step) {
    Row row = step.place == null ? rows.get(step.node) : step.place;
    return row == null || byIndex.get(row.index) != row ? -1 : row.index;
  }

  /** The names of all nodes and racks. */
  Set<String> places() {
    return Collections.unmodifiableSet(places.keySet());
  }

  /** Whether there are names that were not there at the last call. */
  boolean takeNewPlaces() {
    boolean taken = newPlaces;
    newPlaces = false;
    return taken;
  }

  /** A node that was sent since the last snapshot. */
  static final class Row {
    private final int index;
    private final NodeId id;
    /** By which it is asked for: its own and its rack's. */
    List<String> names = Collections.emptyList();
    private String partition;
    /** The row that was sent last. */
    private long[] sent;
    /** By prefix, a slash and the name. */
    private Map<String, String> attributes = Collections.emptyMap();
    /** Until then it is passed over unless the journal names it. */
    private long dueMs;
    /** The last frame for which it was looked at. */
    private long reviewedIn;

    Row(int index, FiCaSchedulerNode node) {
      this.index = index;
      this.id = node.getNodeID();
    }
  }
}

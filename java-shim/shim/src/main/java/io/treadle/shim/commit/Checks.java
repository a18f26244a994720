// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.LeafQueues;
import io.treadle.shim.NodeCondition;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.nodelabels.CommonNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Every check of a proposal that {@code tryCommit} leaves out, because the stock scheduler has done it before it gets
 * there. What is the same for all proposals of a batch is found out once a batch: the caller holds a lock of the
 * scheduler from {@link #begin} to {@link #end}.
 */
final class Checks {
  private final CapacityScheduler scheduler;
  private final CommitSettings settings;
  private final EngineView view;
  private final IndexCache<Application> applications = new IndexCache<>();
  private final IndexCache<Node> nodes = new IndexCache<>();
  private final Map<CSQueue, Collection<FiCaSchedulerApp>> active = new IdentityHashMap<>();
  private final Map<CSQueue, Boolean> offersAll = new IdentityHashMap<>();
  /** Of leaves that do not offer all nodes to all applications, by partition. */
  private final Map<CSQueue, Map<String, Set<FiCaSchedulerApp>>> offered = new IdentityHashMap<>();
  private Directory directory;

  Checks(CapacityScheduler scheduler, CommitSettings settings, EngineView view) {
    this.scheduler = scheduler;
    this.settings = settings;
    this.view = view;
  }

  void begin(Directory names) {
    directory = names;
  }

  void end() {
    directory = null;
    applications.clear();
    nodes.clear();
    active.clear();
    offersAll.clear();
    offered.clear();
  }

  /**
   * Checks one proposal, and fills the placement in.
   *
   * @return the reason against it, or null if it may be handed to {@code tryCommit}
   */
  Fate check(int application, int key, int node, Placement placement) {
    return check(application, key, node, placement, Assumptions.NONE);
  }

  /** The same, of one proposal after others that are assumed to be committed. */
  Fate check(int application, int key, int node, Placement placement, Assumptions assumed) {
    placement.clear();
    if (application < 0 || key < 0 || node < 0) {
      return Fate.NEGATIVE;
    }
    if (application >= directory.applications() || node >= directory.nodes()) {
      return Fate.OUT_OF_RANGE;
    }
    Application found = applications.get(application);
    if (found == null) {
      found = lookUpApplication(directory.application(application));
      applications.put(application, found);
    }
    if (found.refusal != null) {
      return found.refusal;
    }
    placement.app = found.app;
    placement.leaf = found.leaf;
    Fate refusal = checkRequest(application, key, placement, assumed);
    return refusal != null ? refusal : checkNode(node, placement, assumed);
  }

  private Application lookUpApplication(ApplicationAttemptId attempt) {
    FiCaSchedulerApp app = attempt == null ? null : scheduler.getApplicationAttempt(attempt);
    if (app == null) {
      return new Application(Fate.UNKNOWN_APPLICATION);
    }
    if (!app.getApplicationAttemptId().equals(attempt)) {
      return new Application(Fate.FINISHED_ATTEMPT);
    }
    if (app.isStopped()) {
      return new Application(Fate.STOPPED_ATTEMPT);
    }
    CSQueue leaf = (CSQueue) app.getQueue();
    return isActive(app, leaf) ? new Application(app, leaf) : new Application(Fate.INACTIVE_APPLICATION);
  }

  /** Activation is where the AM limits and the limits on parallel applications bind. */
  boolean isActive(FiCaSchedulerApp app, CSQueue leaf) {
    if (!LeafQueues.isLeaf(leaf)) {
      return false;
    }
    return active.computeIfAbsent(leaf, LeafQueues::active).contains(app);
  }

  private Fate checkRequest(int application, int key, Placement placement, Assumptions assumed) {
    if (key >= directory.requestKeys(application)) {
      return Fate.UNKNOWN_REQUEST;
    }
    placement.key = directory.requestKey(application, key);
    if (placement.key == null) {
      return Fate.UNKNOWN_REQUEST;
    }
    if (placement.key.getContainerToUpdate() != null) {
      return Fate.CONTAINER_UPDATE;
    }
    placement.asks = placement.app.getAppPlacementAllocator(placement.key);
    // the allocator of a key goes with its last ask
    return placement.asks == null || outstanding(placement, ResourceRequest.ANY, assumed) <= 0 ? Fate.NO_PENDING_ASK
        : null;
  }

  private static int outstanding(Placement placement, String resourceName, Assumptions assumed) {
    return placement.asks.getOutstandingAsksCount(resourceName) - assumed.served(placement.asks, resourceName);
  }

  private Fate checkNode(int index, Placement placement, Assumptions assumed) {
    Node found = nodes.get(index);
    if (found == null) {
      found = lookUpNode(directory.node(index));
      nodes.put(index, found);
    }
    placement.node = found.node;
    if (found.refusal != null) {
      return found.refusal;
    }
    return checkPlace(placement, assumed);
  }

  private Node lookUpNode(NodeId id) {
    FiCaSchedulerNode node = id == null ? null : scheduler.getNode(id);
    if (node == null) {
      return new Node(null, Fate.UNKNOWN_NODE);
    }
    // as of the frame that the engine decided on. The stock scheduler too looks before it decides, not at a commit.
    // Otherwise all nodes would be refused after a pause of the whole RM, in which nobody could hear them
    return new Node(node, refusal(NodeCondition.of(node, directory.baseMs(), settings.nodeStaleMs)));
  }

  private static Fate refusal(NodeCondition condition) {
    switch (condition) {
      case USABLE:
        return null;
      case NOT_RUNNING:
        return Fate.NODE_NOT_RUNNING;
      case STALE:
        return Fate.NODE_STALE;
      default:
        return Fate.NODE_RESERVED;
    }
  }

  /** Whether a node may be used now, outside a batch. */
  Fate checkCondition(FiCaSchedulerNode node) {
    return refusal(NodeCondition.of(node, settings.nowMs(), settings.nodeStaleMs));
  }

  /** Blacklist, partition, constraints and locality of an ask on a node; sets mode, locality and capability. */
  private Fate checkPlace(Placement placement, Assumptions assumed) {
    FiCaSchedulerNode node = placement.node;
    if (placement.app.isPlaceBlacklisted(node.getNodeName()) || placement.app.isPlaceBlacklisted(node.getRackName())) {
      return Fate.BLACKLISTED;
    }
    Fate refusal = checkPartition(placement);
    refusal = refusal != null ? refusal : deriveLocality(placement, assumed);
    return refusal != null || leavesHeld(placement, assumed) ? refusal : Fate.NODE_FULL;
  }

  /** Whether what is held on the node stays free. */
  private boolean leavesHeld(Placement placement, Assumptions assumed) {
    Resource kept = view.held(placement.node.getNodeID());
    if (kept == null) {
      return true;
    }
    Resource used = assumed.used(placement.node, placement.node.getPartition());
    Resource taken = used == null ? kept : Resources.add(kept, used);
    return Resources.fitsIn(scheduler.getResourceCalculator(), Resources.add(taken, placement.capability),
        placement.node.getUnallocatedResource());
  }

  /** Partition, node attributes and placement constraints; sets the scheduling mode. */
  Fate checkPartition(Placement placement) {
    String partition = placement.node.getPartition();
    String requested = placement.asks.getPrimaryRequestedNodePartition();
    if (requested.equals(partition)) {
      placement.mode = SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY;
      if (!partition.isEmpty() && !accessible(placement.leaf, partition)) {
        return Fate.WRONG_PARTITION;
      }
    } else if (requested.isEmpty() && !isExclusive(partition) && !placement.app.isWaitingForAMContainer()) {
      placement.mode = SchedulingMode.IGNORE_PARTITION_EXCLUSIVITY;
    } else {
      return Fate.WRONG_PARTITION;
    }
    if (!isOffered(placement, partition)) {
      return Fate.WRONG_PARTITION;
    }
    // the partition is right: what is left are the constraints of a SchedulingRequest, and
    // requirements where TreadlePlacementAllocator is installed
    return satisfiesConstraint(placement) ? null : Fate.CONSTRAINT;
  }

  /** An ordering policy may keep the nodes of a partition for applications of that partition. */
  private boolean isOffered(Placement placement, String partition) {
    CSQueue leaf = placement.leaf;
    return offersAll.computeIfAbsent(leaf, LeafQueues::offersAll)
        || offered.computeIfAbsent(leaf, key -> new HashMap<>())
        .computeIfAbsent(partition, key -> LeafQueues.offered(leaf, key)).contains(placement.app);
  }

  private static boolean satisfiesConstraint(Placement placement) {
    try {
      return placement.app.getAppSchedulingInfo().precheckNode(
          placement.key, placement.node, placement.mode, Optional.empty());
    } catch (RuntimeException e) {
      // the RM cannot judge it, as with an attribute that is compared with nothing: no node will do
      return false;
    }
  }

  private static boolean accessible(CSQueue leaf, String partition) {
    Set<String> labels = leaf.getAccessibleNodeLabels();
    return labels != null && (labels.contains(CommonNodeLabelsManager.ANY) || labels.contains(partition));
  }

  private boolean isExclusive(String partition) {
    try {
      return scheduler.getRMContext().getNodeLabelManager().isExclusiveNodeLabel(partition);
    } catch (IOException unknownLabel) {
      return true;
    }
  }

  /** Sets locality and capability, in the order in which the stock allocator tries node, rack and anywhere. */
  private static Fate deriveLocality(Placement placement, Assumptions assumed) {
    String host = placement.node.getNodeName();
    String rack = placement.node.getRackName();
    boolean askedHere = outstanding(placement, host, assumed) > 0;
    boolean askedOnRack = outstanding(placement, rack, assumed) > 0;
    placement.requestLocality = askedOnRack ? NodeType.RACK_LOCAL : NodeType.OFF_SWITCH;
    if (askedHere) {
      placement.requestLocality = NodeType.NODE_LOCAL;
    }
    if (askedHere && askedOnRack) {
      return applyLocality(NodeType.NODE_LOCAL, host, placement);
    }
    if (askedOnRack) {
      return placement.asks.canDelayTo(rack) ? applyLocality(NodeType.RACK_LOCAL, rack, placement) : Fate.LOCALITY;
    }
    return placement.asks.canDelayTo(ResourceRequest.ANY)
        ? applyLocality(NodeType.OFF_SWITCH, ResourceRequest.ANY, placement) : Fate.LOCALITY;
  }

  private static Fate applyLocality(NodeType locality, String resourceName, Placement placement) {
    placement.locality = locality;
    PendingAsk ask = placement.asks.getPendingAsk(resourceName);
    placement.capability = ask.getPerAllocationResource();
    // an AM may take its asks back at any moment, without the scheduler's lock
    return ask.getCount() > 0 ? null : Fate.NO_PENDING_ASK;
  }

  /** What is the same for all proposals of an application in a batch. */
  private static final class Application {
    final FiCaSchedulerApp app;
    final CSQueue leaf;
    final Fate refusal;

    Application(FiCaSchedulerApp app, CSQueue leaf) {
      this.app = app;
      this.leaf = leaf;
      this.refusal = null;
    }

    Application(Fate refusal) {
      this.app = null;
      this.leaf = null;
      this.refusal = refusal;
    }
  }

  /** What is the same for all proposals on a node in a batch. */
  private static final class Node {
    final FiCaSchedulerNode node;
    final Fate refusal;

    Node(FiCaSchedulerNode node, Fate refusal) {
      this.node = node;
      this.refusal = refusal;
    }
  }

  /**
   * A map from small indices to what was found out about them, emptied after each batch. Neither boxes nor keeps
   * anything alive between batches.
   */
  private static final class IndexCache<T> {
    private Object[] values = new Object[64];
    private int[] filled = new int[64];
    private int size;

    @SuppressWarnings("unchecked")
    T get(int index) {
      return index < values.length ? (T) values[index] : null;
    }

    /** Keeps a value for an index that has none; indices are bounded by what the frames gave out. */
    void put(int index, T value) {
      if (index >= values.length) {
        values = Arrays.copyOf(values, Math.max(index + 1, values.length * 2));
      }
      if (size == filled.length) {
        filled = Arrays.copyOf(filled, size * 2);
      }
      values[index] = value;
      filled[size++] = index;
    }

    void clear() {
      for (int i = 0; i < size; i++) {
        values[filled[i]] = null;
      }
      size = 0;
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.NodeCondition;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import java.io.IOException;
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
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * The checks of a proposal that {@code tryCommit} omits, because the stock scheduler makes them earlier; and the
 * reasons of {@code tryCommit}, which returns none. For one batch: common results of its proposals are computed once,
 * and the caller holds a lock of the scheduler for the object's lifetime.
 */
final class Checks {
  private final CapacityScheduler scheduler;
  private final CommitSettings settings;
  /** The amounts held on nodes. */
  private final Map<NodeId, Resource> held;
  private final Directory directory;
  private final Map<Integer, Found<FiCaSchedulerApp>> applications = new HashMap<>();
  private final Map<CSQueue, Collection<FiCaSchedulerApp>> active = new IdentityHashMap<>();
  /** What leaves offer the nodes of a partition to. */
  private final Map<CSQueue, Map<String, Optional<Set<FiCaSchedulerApp>>>> offered = new IdentityHashMap<>();
  /** The latest node: proposals for one often follow one another, and few come back to it. */
  private int latestIndex = -1;
  private Found<FiCaSchedulerNode> latest;

  /** Checks of proposals whose indices mean what a directory says. */
  Checks(CapacityScheduler scheduler, CommitSettings settings, Map<NodeId, Resource> held, Directory directory) {
    this.scheduler = scheduler;
    this.settings = settings;
    this.held = held;
    this.directory = directory;
  }

  /**
   * Checks one proposal, and fills a new placement in.
   *
   * @param assumed earlier proposals that are assumed to be committed
   * @return the reason against it, or null if it may be handed to {@code tryCommit}
   */
  Fate check(int application, int key, int node, Placement placement, Assumptions assumed) {
    if (application < 0 || key < 0 || node < 0) {
      return Fate.NEGATIVE;
    }
    if (application >= directory.applications() || node >= directory.nodes()) {
      return Fate.OUT_OF_RANGE;
    }
    Found<FiCaSchedulerApp> found = applications.computeIfAbsent(application, this::lookUpApplication);
    if (found.refusal != null) {
      return found.refusal;
    }
    placement.app = found.what;
    placement.leaf = (CSQueue) found.what.getQueue();
    Fate refusal = checkRequest(application, key, placement, assumed);
    return refusal != null ? refusal : checkNode(node, placement, assumed);
  }

  private Found<FiCaSchedulerApp> lookUpApplication(int index) {
    ApplicationAttemptId attempt = directory.application(index);
    FiCaSchedulerApp app = attempt == null ? null : scheduler.getApplicationAttempt(attempt);
    if (app == null) {
      return new Found<>(app, Fate.UNKNOWN_APPLICATION);
    }
    if (!app.getApplicationAttemptId().equals(attempt)) {
      return new Found<>(app, Fate.FINISHED_ATTEMPT);
    }
    if (app.isStopped()) {
      return new Found<>(app, Fate.STOPPED_ATTEMPT);
    }
    return new Found<>(app, isActive(app, (CSQueue) app.getQueue()) ? null : Fate.INACTIVE_APPLICATION);
  }

  /** Activation is where the AM limits and the limits on parallel applications bind. */
  boolean isActive(FiCaSchedulerApp app, CSQueue leaf) {
    return LeafQueues.isLeaf(leaf) && active.computeIfAbsent(leaf, LeafQueues::active).contains(app);
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
    if (index != latestIndex) {
      latest = lookUpNode(index);
      latestIndex = index;
    }
    placement.node = latest.what;
    return latest.refusal != null ? latest.refusal : checkPlace(placement, assumed);
  }

  private Found<FiCaSchedulerNode> lookUpNode(int index) {
    NodeId id = directory.node(index);
    FiCaSchedulerNode node = id == null ? null : scheduler.getNode(id);
    if (node == null) {
      return new Found<>(node, Fate.UNKNOWN_NODE);
    }
    // As of the frame that the engine decided on. The stock scheduler too checks before it decides, not at a commit.
    // Otherwise all nodes would be rejected after a pause of the whole RM, in which no heartbeat could arrive.
    return new Found<>(node, NodeCondition.reasonAgainst(node, directory.baseMs(), settings.nodeStaleMs));
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

  /** Whether the amount held on the node stays free. */
  private boolean leavesHeld(Placement placement, Assumptions assumed) {
    Resource kept = held.isEmpty() ? null : held.get(placement.node.getNodeID());
    if (kept == null) {
      return true;
    }
    Resource taken = plus(kept, assumed.used(placement.node, placement.node.getPartition()));
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
    // the partition is right: the rest are the constraints of a SchedulingRequest, and requirements where
    // TreadlePlacementAllocator is installed
    return satisfiesConstraint(placement) ? null : Fate.CONSTRAINT;
  }

  /** An ordering policy may keep the nodes of a partition for applications of that partition. */
  private boolean isOffered(Placement placement, String partition) {
    Optional<Set<FiCaSchedulerApp>> some = offered.computeIfAbsent(placement.leaf, leaf -> new HashMap<>())
        .computeIfAbsent(partition, name -> LeafQueues.offered(placement.leaf, name));
    return !some.isPresent() || some.get().contains(placement.app);
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

  /**
   * The reason why the RM rejects a placement that has passed {@link #check}. Only checks: {@code tryCommit} alone
   * decides, and this runs after its rejection, in the order of its checks, or where nothing is committed.
   *
   * @param assumptions amounts to count as used in addition to the RM's
   * @return the reason, or null if none is found now
   */
  Fate reasonAgainst(Placement placement, Assumptions assumptions) {
    if (placement.app.isStopped()) {
      return Fate.STOPPED_ATTEMPT;
    }
    if (outstanding(placement, ResourceRequest.ANY, assumptions) <= 0) {
      return Fate.NO_PENDING_ASK;
    }
    if (!placement.asks.canAllocate(placement.locality, placement.node)) {
      return placement.asks.getSchedulingRequest() == null ? Fate.STALE_STATE : Fate.CONSTRAINT;
    }
    Fate againstNode = againstNode(placement, assumptions);
    return againstNode != null ? againstNode : limitAgainst(placement, assumptions);
  }

  /** The limit of a user or a queue against a placement, wherever it is; null if none is. */
  Fate limitAgainst(Placement placement, Assumptions assumptions) {
    if (overUserLimit(placement, assumptions)) {
      return Fate.USER_LIMIT;
    }
    return overQueueMaximum(placement, assumptions) ? Fate.QUEUE_MAXIMUM : null;
  }

  private Fate againstNode(Placement placement, Assumptions assumptions) {
    Fate refusal = NodeCondition.reasonAgainst(placement.node, 0, Long.MAX_VALUE);
    if (refusal != null) {
      return refusal;
    }
    Resource wanted = plus(placement.capability, assumptions.used(placement.node, placement.node.getPartition()));
    return Resources.fitsIn(scheduler.getResourceCalculator(), wanted, placement.node.getUnallocatedResource())
        ? null : Fate.NODE_FULL;
  }

  private boolean overUserLimit(Placement placement, Assumptions assumptions) {
    Resource cluster = scheduler.getClusterResource();
    String partition = placement.node.getPartition();
    String name = placement.app.getUser();
    UsersManager users = LeafQueues.users(placement.leaf);
    UsersManager.User user = users.getUser(name);
    if (user == null) {
      return false;
    }
    Resource limit = users.getComputedResourceLimitForActiveUsers(name, cluster, partition, placement.mode);
    Resource assumed = assumptions.used(placement.leaf, partition);
    if (assumed != null) {
      limit = grown(limit, placement.leaf, partition, assumed);
    }
    Resource used = plus(user.getUsed(partition), assumptions.used(user, partition));
    // ">" compares the usage before this container: a user may exceed the limit by one container, as in the stock
    // scheduler
    return Resources.greaterThan(scheduler.getResourceCalculator(), cluster, used, limit);
  }

  /** A user's limit rises with the queue's usage beyond its capacity, up to a multiple of the capacity. */
  private static Resource grown(Resource limit, CSQueue leaf, String partition, Resource assumed) {
    Resource capacity = leaf.getEffectiveCapacity(partition);
    Resource used = leaf.getQueueResourceUsage().getUsed(partition);
    Resource growth = Resources.subtractNonNegative(
        Resources.add(used, assumed), Resources.componentwiseMax(capacity, used));
    Resource raised = Resources.add(limit, growth);
    float factor = LeafQueues.users(leaf).getUserLimitFactor();
    return factor < 0 ? raised
        : Resources.componentwiseMin(raised, Resources.componentwiseMax(limit, Resources.multiply(capacity, factor)));
  }

  private boolean overQueueMaximum(Placement placement, Assumptions assumptions) {
    ResourceCalculator calculator = scheduler.getResourceCalculator();
    String partition = placement.node.getPartition();
    RMNodeLabelsManager labels = scheduler.getRMContext().getNodeLabelManager();
    for (CSQueue ancestor = placement.leaf; ancestor != null; ancestor = ancestor.getParent()) {
      Resource maximum = placement.mode == SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY
          ? ancestor.getEffectiveMaxCapacity(partition)
          : labels.getResourceByLabel(partition, scheduler.getClusterResource());
      Resource used = plus(ancestor.getQueueResourceUsage().getUsed(partition), assumptions.used(ancestor, partition));
      if (!Resources.fitsIn(calculator, Resources.add(used, placement.capability), maximum)) {
        return true;
      }
    }
    return false;
  }

  private static Resource plus(Resource used, Resource assumed) {
    return assumed == null ? used : Resources.add(used, assumed);
  }

  /** An application or a node, and the reason against all proposals for it, or null. */
  private static final class Found<T> {
    final T what;
    final Fate refusal;

    Found(T what, Fate refusal) {
      this.what = what;
      this.refusal = refusal;
    }
  }
}

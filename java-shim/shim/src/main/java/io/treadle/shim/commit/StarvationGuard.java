// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.ApplicationTags;
import io.treadle.shim.Log;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.hadoop.thirdparty.com.google.common.collect.Maps;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Bounds how long a request key waits next to idle resources. It is neglected if at {@value #LOOKS} consecutive checks
 * it has requests, got nothing since the first, and passes every check of a commit on one node, whose free resources
 * were always sufficient. Resources used by others follow the policy's order. For the link thread, except where a
 * method says otherwise.
 */
public final class StarvationGuard {
  static final int LOOKS = 5;
  /** The most commits of a look, and the most keys of an application that are followed. */
  static final int COMMITS = 16;
  private static final Log LOG = new Log(StarvationGuard.class);
  private static final int STEPS_PER_TICK = 4096;
  /** Steps per hold of the scheduler's lock, and per search for a node. */
  private static final int STEPS = 64;

  private final SchedulerPort port;
  private final Committer committer;
  private Checks checks;
  private final CommitSettings settings;
  private final Runnable counted;
  private final Map<Map.Entry<ApplicationAttemptId, SchedulerRequestKey>, Watch> watches = new ConcurrentHashMap<>();
  /** When a look first named an attempt or a node as held on purpose; until a container comes. */
  private final Map<Object, Long> heldSince = new ConcurrentHashMap<>();
  /** The least room after a commit since the latest look began, by node; and between the look before and that. */
  private volatile Map<NodeId, Resource> least = new ConcurrentHashMap<>();
  private Map<NodeId, Resource> leastBefore = least;
  private volatile long starvationMs;
  private volatile long holdMs;
  private volatile long lookedMs = Long.MIN_VALUE / 2;
  private volatile String suspension;
  private volatile long suspendedUntilMs;
  private Placement placement;
  private int look;
  private int steps;
  private int engineLastPlacedAt;
  private final List<ApplicationAttemptId> notLookedAt = new ArrayList<>();
  /** Nodes, first those on which nothing was committed lately; and those with room for a size. */
  private List<FiCaSchedulerNode> open;
  private final Map<Resource, List<FiCaSchedulerNode>> fitting = new HashMap<>();
  /** The indices of attempts and nodes that are not held on purpose. */
  private final Map<Object, Integer> indices = new HashMap<>();
  private final List<Watch> neglected = new ArrayList<>();
  /** Applications that were served here since the engine placed anything. */
  private final Set<ApplicationId> unserved = new HashSet<>();
  private int served;

  /** A guard that has seen nothing; {@code counted} is called for each container that it places. */
  public StarvationGuard(SchedulerPort port, CommitSettings settings, Committer committer, Runnable counted) {
    this.port = port;
    this.committer = committer;
    this.counted = counted;
    this.settings = settings;
  }

  /** Sets how long a key may be neglected, 0 for no limit, and held on purpose; the engine may schedule. Any thread. */
  public void configure(long starvation, long hold) {
    starvationMs = starvation;
    holdMs = hold;
    suspension = null;
  }

  /** Why the engine may not schedule now, or null. Any thread. */
  public String suspension() {
    return settings.nowMs() - suspendedUntilMs >= 0 ? null : suspension;
  }

  /** A container was placed, by anybody. Any thread. */
  public void placed(SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed) {
    // rooms count from when a look, which keeps commits out, begins to follow a key
    if (!(watches.isEmpty() && heldSince.isEmpty()) && settings.nowMs() - lookedMs <= starvationMs / 2) {
      ApplicationAttemptId attempt = placed.getSchedulerApplicationAttempt().getApplicationAttemptId();
      FiCaSchedulerNode node = placed.getSchedulerNode();
      Resource room = node.getUnallocatedResource();
      Resource before = least.get(node.getNodeID());
      if (before == null || !Resources.fitsIn(before, room)) {
        least.merge(node.getNodeID(), Resources.clone(room), Resources::componentwiseMin);
      }
      watches.remove(Maps.immutableEntry(attempt, placed.getSchedulerRequestKey()));
      heldSince.remove(attempt);
      heldSince.remove(node.getNodeID());
    }
  }

  /** {@code count} proposals of an answer were committed with success: looks if it is time, or goes on with a look. */
  public void answered(ProposalFrame answer, Directory directory, int count, BooleanSupplier mayCommit,
      BooleanSupplier isOver) {
    if (count > 0) {
      engineLastPlacedAt = look;
      unserved.clear();
    }
    long nowMs = settings.nowMs();
    if (starvationMs == 0 || notLookedAt.isEmpty() && nowMs - lookedMs < starvationMs / (LOOKS - 1)) {
      return;
    }
    if (notLookedAt.isEmpty()) {
      begin(directory, nowMs);
    }
    name(answer, directory, nowMs);
    for (steps = 0; !notLookedAt.isEmpty() && steps < STEPS_PER_TICK; steps++) {
      ApplicationAttemptId attempt = notLookedAt.remove(notLookedAt.size() - 1);
      if (indices.containsKey(attempt)) {
        look(directory, attempt, indices.get(attempt));
      }
    }
    commit(answer, directory, mayCommit, isOver);
  }

  private void begin(Directory directory, long nowMs) {
    leastBefore = least;
    least = new ConcurrentHashMap<>();
    boolean inARow = nowMs - lookedMs <= starvationMs / 2;
    look += inARow ? 1 : 2;
    watches.values().removeIf(watch -> watch.last < look - 1);
    lookedMs = nowMs;
    served = 0;
    for (int index = 0; index < directory.applications(); index++) {
      if (directory.application(index) != null && directory.isWhole(index)) {
        notLookedAt.add(directory.application(index));
      }
    }
    Collections.shuffle(notLookedAt);
    open = new ArrayList<>(port.scheduler().getAllNodes());
    Collections.shuffle(open);
    open.sort(Comparator.comparing(node -> leastBefore.containsKey(node.getNodeID())));
    Set<Object> there = new HashSet<>(notLookedAt);
    open.forEach(node -> there.add(node.getNodeID()));
    heldSince.keySet().removeIf(what -> !inARow || !there.contains(what));
  }

  /** Finds out what indices mean now: a snapshot may give out others in the midst of a look. */
  private void name(ProposalFrame answer, Directory directory, long nowMs) {
    indices.clear();
    fitting.clear();
    neglected.clear();
    for (int index = 0; index < directory.applications(); index++) {
      name(directory.application(index), index, answer.heldApplications.get(index), nowMs);
    }
    for (int index = 0; index < directory.nodes(); index++) {
      name(directory.node(index), index, answer.heldNodes.get(index), nowMs);
    }
  }

  private void name(Object what, int index, boolean held, long nowMs) {
    if (what != null && !(held && nowMs - heldSince.computeIfAbsent(what, first -> nowMs) < holdMs)) {
      indices.put(what, index);
    }
  }

  private void look(Directory directory, ApplicationAttemptId attempt, int index) {
    int[] keys = directory.askingKeys(index);
    int followed = 0;
    int end = steps + STEPS_PER_TICK;
    for (int at = 0; at < keys.length && followed < COMMITS && steps < end; Committer.letOthersIn()) {
      port.readLock().lock();
      try {
        checks = committer.checks(directory);
        for (int pause = steps + STEPS; steps < pause && at < keys.length && followed < COMMITS; at++, steps++) {
          SchedulerRequestKey asked = directory.requestKey(index, keys[at]);
          followed += asked != null && look(Maps.immutableEntry(attempt, asked), index, keys[at]) ? 1 : 0;
        }
      } catch (RuntimeException e) {
        LOG.failure("a look for neglected requests", e);
        return;
      } finally {
        checks = null;
        placement = null;
        port.readLock().unlock();
      }
    }
  }

  /** Looks at a key; answers whether it could be served. */
  private boolean look(Map.Entry<ApplicationAttemptId, SchedulerRequestKey> ask, int index, int key) {
    Watch watch = watches.remove(ask);
    if (watch == null || reasonAgainst(index, key, watch.node) != null
        || !fits(least.get(watch.node)) || !fits(leastBefore.get(watch.node))) {
      NodeId node = find(ask.getKey(), ask.getValue(), index, key);
      // only the engine knows what applications with such tags need
      if (node == null || !placement.app.isWaitingForAMContainer() && ApplicationTags.areForEngine(
          port.scheduler().getRMContext().getRMApps().get(ask.getKey().getApplicationId()))) {
        return false;
      }
      watch = new Watch();
      watch.attempt = ask.getKey();
      watch.node = node;
      watch.first = look;
    }
    watch.last = look;
    watch.key = key;
    watches.put(ask, watch);
    if (look - watch.first >= LOOKS - 1 && served + neglected.size() < COMMITS) {
      neglected.add(watch);
    }
    return true;
  }

  private Fate reasonAgainst(int index, int key, NodeId node) {
    Integer at = indices.get(node);
    placement = new Placement();
    Fate reason = at == null ? Fate.UNKNOWN_NODE : checks.check(index, key, at, placement, Assumptions.NONE);
    return reason != null ? reason : checks.reasonAgainst(placement, Assumptions.NONE);
  }

  /** A node on which an ask passes every check; null if none of those that are tried will do. */
  private NodeId find(ApplicationAttemptId attempt, SchedulerRequestKey asked, int index, int key) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
    AppPlacementAllocator<?> asks = app == null ? null : app.getAppPlacementAllocator(asked);
    if (asks == null || asks.getOutstandingAsksCount(ResourceRequest.ANY) <= 0) {
      return null;
    }
    placement = new Placement();
    placement.capability = asks.getPendingAsk(ResourceRequest.ANY).getPerAllocationResource();
    List<FiCaSchedulerNode> nodes = fitting.get(placement.capability);
    if (nodes == null) {
      nodes = open.stream().filter(node -> fits(node.getUnallocatedResource())).collect(Collectors.toList());
      fitting.put(Resources.clone(placement.capability), nodes);
      steps += open.size() / 8;
    }
    String partition = asks.getPrimaryRequestedNodePartition();
    int last = steps + STEPS;
    for (int at = 0; at < nodes.size() && steps < last; at++) {
      if (partition.isEmpty() || partition.equals(nodes.get(at).getPartition())) {
        steps++;
        if (reasonAgainst(index, key, nodes.get(at).getNodeID()) == null) {
          return nodes.get(at).getNodeID();
        }
      }
    }
    return null;
  }

  private boolean fits(Resource room) {
    return room == null || Resources.fitsIn(port.scheduler().getResourceCalculator(), placement.capability, room);
  }

  private void commit(ProposalFrame answer, Directory directory, BooleanSupplier mayCommit, BooleanSupplier isOver) {
    int[][] rows = neglected.stream().map(watch -> new int[] {
        indices.get(watch.attempt), watch.key, indices.get(watch.node)}).toArray(int[][]::new);
    CommitResult result = committer.commit(ProposalFrame.of(answer, rows), directory, rows.length, mayCommit, isOver);
    for (int row = 0; row < rows.length; row++) {
      if (result.fate(row) == Fate.COMMITTED) {
        ApplicationAttemptId attempt = neglected.get(row).attempt;
        served++;
        counted.run();
        LOG.warn("Placed a container for {}: the engine left it next to idle room for {} ms", attempt, starvationMs);
        if (neglected.get(row).first > engineLastPlacedAt) {
          unserved.add(attempt.getApplicationId());
        }
      }
    }
    if (unserved.size() > 1) {
      suspendedUntilMs = settings.nowMs() + 6 * starvationMs;
      suspension = "the engine answers but places nothing: for " + starvationMs + " ms nodes had room for " + unserved
          + ". Correct the policy and run 'yarn rmadmin -refreshQueues', or wait 6 times " + ShimConfig.STARVATION_MS;
      unserved.clear();
    }
  }

  private static final class Watch {
    private ApplicationAttemptId attempt;
    private NodeId node;
    private int first;
    private int last;
    private int key;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.guard;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.commit.Ask;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * A round of heartbeats in which the stock scheduler may place beside an engine that has placed nothing for long. Says
 * of a placement whether it needed only room that was free when the round began, on the node and below every limit:
 * what containers gave back since then does not count, because the engine has not had the time for it. Thread-safe;
 * takes no lock of the scheduler's while it holds its own.
 */
final class IdleRound {
  private final SchedulerPort port;
  private final Set<Ask> waited;
  private final Resource cluster;
  private final long endMs;
  /** What was given back since the beginning, by node, and by queue or user with the partition. */
  private final Map<Object, Resource> given = new HashMap<>();
  private boolean unclear;

  /**
   * A round that begins now.
   *
   * @param waited the asks that the engine could have served for a while
   * @param endMs when it ends by itself, by the caller's clock, milliseconds
   */
  IdleRound(SchedulerPort port, Set<Ask> waited, long endMs) {
    this.port = port;
    this.waited = new HashSet<>(waited);
    this.cluster = Resources.clone(port.scheduler().getClusterResource());
    this.endMs = endMs;
  }

  /** When it ends, milliseconds. */
  long endMs() {
    return endMs;
  }

  /** A container has ended. */
  void ended(RMContainer container) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(container.getApplicationAttemptId());
    FiCaSchedulerNode node = port.scheduler().getNode(container.getNodeId());
    if (app == null || node == null) {
      unclear();
      return;
    }
    CSQueue leaf = (CSQueue) app.getQueue();
    String partition = node.getPartition();
    synchronized (given) {
      give(node.getNodeID(), container.getAllocatedResource());
      give(userKey(leaf, app.getUser(), partition), container.getAllocatedResource());
      for (CSQueue queue = leaf; queue != null; queue = queue.getParent()) {
        give(queueKey(queue, partition), container.getAllocatedResource());
      }
    }
  }

  /** Space became free in a way that is not followed: no placement counts any more. */
  void unclear() {
    synchronized (given) {
      unclear = true;
    }
  }

  private void give(Object holder, Resource resource) {
    given.merge(holder, Resources.clone(resource), Resources::addTo);
  }

  /**
   * Whether a placement that the stock scheduler has just committed served an ask that waited, in room that was free
   * when the round began.
   */
  boolean usesFreeRoom(ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> placement) {
    SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed = placement.getAllocatedOrReservedContainer();
    FiCaSchedulerApp app = placed.getSchedulerApplicationAttempt();
    if (!waited.contains(new Ask(app.getApplicationAttemptId(), placed.getSchedulerRequestKey()))
        || !cluster.equals(port.scheduler().getClusterResource())) {
      return false;
    }
    FiCaSchedulerNode node = placed.getSchedulerNode();
    CSQueue leaf = (CSQueue) app.getQueue();
    String partition = node.getPartition();
    Map<Object, Resource> back = givenBack(node, leaf, app.getUser());
    if (back == null) {
      return false;
    }
    ResourceCalculator calculator = port.scheduler().getResourceCalculator();
    return Resources.fitsIn(calculator, of(back, node.getNodeID()), node.getUnallocatedResource())
        && belowMaxima(leaf, partition, placement.getSchedulingMode(), back)
        && belowUserLimit(leaf, app.getUser(), partition, placement, back);
  }

  /** What was given back where a placement takes from: a few entries, however many there are; null if it is unclear. */
  private Map<Object, Resource> givenBack(FiCaSchedulerNode node, CSQueue leaf, String user) {
    List<Object> holders = new ArrayList<>();
    holders.add(node.getNodeID());
    holders.add(userKey(leaf, user, node.getPartition()));
    for (CSQueue queue = leaf; queue != null; queue = queue.getParent()) {
      holders.add(queueKey(queue, node.getPartition()));
    }
    Map<Object, Resource> back = new HashMap<>();
    synchronized (given) {
      if (unclear) {
        return null;
      }
      for (Object holder : holders) {
        Resource resource = given.get(holder);
        if (resource != null) {
          back.put(holder, Resources.clone(resource));
        }
      }
    }
    return back;
  }

  /** Whether the queues would be below their maxima had nothing been given back. */
  private boolean belowMaxima(CSQueue leaf, String partition, SchedulingMode mode, Map<Object, Resource> back) {
    CapacityScheduler scheduler = port.scheduler();
    for (CSQueue queue = leaf; queue != null; queue = queue.getParent()) {
      Resource maximum = mode == SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY ? queue.getEffectiveMaxCapacity(partition)
          : scheduler.getRMContext().getNodeLabelManager().getResourceByLabel(partition, cluster);
      Resource used = Resources.add(
          queue.getQueueResourceUsage().getUsed(partition), of(back, queueKey(queue, partition)));
      if (!Resources.fitsIn(scheduler.getResourceCalculator(), used, maximum)) {
        return false;
      }
    }
    return true;
  }

  private boolean belowUserLimit(CSQueue leaf, String name, String partition,
      ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> placement, Map<Object, Resource> back) {
    UsersManager.User user = LeafQueues.user(leaf, name);
    if (user == null) {
      return false;
    }
    Resource limit = LeafQueues.activeUserLimit(leaf, name, cluster, partition, placement.getSchedulingMode());
    // as at a commit: what was used before this container
    Resource used = Resources.subtract(
        Resources.add(user.getUsed(partition), of(back, userKey(leaf, name, partition))),
        placement.getAllocatedOrReservedResource());
    return !Resources.greaterThan(port.scheduler().getResourceCalculator(), cluster, used, limit);
  }

  private static Resource of(Map<Object, Resource> back, Object holder) {
    return back.getOrDefault(holder, Resources.none());
  }

  private static String queueKey(CSQueue queue, String partition) {
    return "queue " + queue.getQueuePath() + ' ' + partition;
  }

  private static String userKey(CSQueue leaf, String user, String partition) {
    return "user " + leaf.getQueuePath() + ' ' + partition + ' ' + user;
  }
}

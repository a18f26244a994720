// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.LeafQueues;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** Compares what an engine knows with what a quiet scheduler knows. */
final class ModelCheck {
  private final CapacityScheduler scheduler;

  ModelCheck(CapacityScheduler scheduler) {
    this.scheduler = scheduler;
  }

  void check(EngineModel model) {
    assertEquals(lines(nodes()), lines(model.nodes.values()), "nodes");
    Map<String, String> limits = new TreeMap<>();
    limits(scheduler.getRootQueue(), limits);
    Map<String, String> known = new TreeMap<>(model.limits);
    known.entrySet().removeIf(row -> !row.getKey().endsWith("/") && !row.getValue().matches(".*[1-9].*"));
    assertEquals(lines(limits.entrySet()), lines(known.entrySet()), "queue limits");
    Map<String, EngineModel.Application> apps = new TreeMap<>();
    model.applications.values().forEach(app -> apps.put(app.id, app));
    TreeSet<String> ids = new TreeSet<>();
    for (SchedulerApplication<FiCaSchedulerApp> application : scheduler.getSchedulerApplications().values()) {
      FiCaSchedulerApp app = application.getCurrentAppAttempt();
      if (app != null && !app.isStopped()) {
        ids.add(id(app));
        assertTrue(apps.containsKey(id(app)), () -> id(app) + " is not among " + apps.keySet());
        check(app, apps.get(id(app)));
      }
    }
    assertEquals(ids, apps.keySet(), "applications");
  }

  private static String lines(Collection<?> values) {
    TreeSet<String> sorted = new TreeSet<>();
    values.forEach(value -> sorted.add(value.toString()));
    return String.join("\n", sorted);
  }

  private static String id(FiCaSchedulerApp app) {
    return app.getApplicationId().getClusterTimestamp() + "_" + app.getApplicationId().getId() + "_"
        + app.getApplicationAttemptId().getAttemptId();
  }

  private static String amounts(Resource resource) {
    return Arrays.toString(Arrays.stream(resource.getResources()).mapToLong(type -> type.getValue()).toArray());
  }

  private static String container(RMContainer container) {
    return container.getNodeId().getHost() + " " + amounts(container.getAllocatedResource());
  }

  /** Numbers begin again with each attempt, so that of a container that was kept is another. */
  private static long number(FiCaSchedulerApp app, ContainerId id) {
    int attempt = id.getApplicationAttemptId().getAttemptId();
    return attempt == app.getApplicationAttemptId().getAttemptId() ? id.getContainerId()
        : id.getContainerId() | (long) attempt << ContainerSection.KEPT_SHIFT;
  }

  private TreeSet<String> nodes() {
    TreeSet<String> nodes = new TreeSet<>();
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      boolean usable = node.getRMNode().getState() == NodeState.RUNNING && node.getReservedContainer() == null;
      nodes.add(node.getNodeName() + " " + node.getRackName() + " " + node.getPartition() + " state="
          + (usable ? 1 : 2) + " total=" + amounts(node.getTotalResource()) + " free="
          + amounts(node.getUnallocatedResource()));
    }
    return nodes;
  }

  private Set<String> partitions() {
    Set<String> partitions = new TreeSet<>(scheduler.getRMContext().getNodeLabelManager().getClusterNodeLabelNames());
    partitions.add("");
    return partitions;
  }

  private void limits(CSQueue queue, Map<String, String> limits) {
    for (String partition : partitions()) {
      String row = amounts(queue.getEffectiveCapacity(partition)) + " "
          + amounts(queue.getEffectiveMaxCapacity(partition))
          + " " + amounts(queue.getQueueResourceUsage().getUsed(partition)) + " "
          + amounts(queue.getQueueResourceUsage().getPending(partition));
      // a queue that has nothing in a partition need not be sent there
      if (partition.isEmpty() || row.matches(".*[1-9].*")) {
        limits.put(queue.getQueuePath() + "/" + partition, row);
      }
    }
    if (!LeafQueues.isLeaf(queue)) {
      queue.getChildQueues().forEach(child -> limits(child, limits));
    }
  }

  private void check(FiCaSchedulerApp app, EngineModel.Application known) {
    boolean active = LeafQueues.active((CSQueue) app.getQueue()).contains(app);
    String expected = app.getUser() + " " + ((CSQueue) app.getQueue()).getQueuePath() + " priority="
        + app.getPriority().getPriority() + " state=" + (active ? 1 : 2) + " awaiting_am="
        + (app.isWaitingForAMContainer() ? 1 : 0);
    assertTrue(known.row.endsWith(expected), () -> known.row + " is not " + expected);
    assertEquals(app.getLiveContainersMap().size() + " " + amounts(app.getAppAttemptResourceUsage().getAllUsed()),
        known.usage, "usage of " + known.id);
    Map<Long, String> live = new TreeMap<>();
    app.getLiveContainersMap().values().stream().filter(ContainerStep::isReported)
        .forEach(container -> live.put(number(app, container.getContainerId()), container(container)));
    assertEquals(app.getLiveContainersMap().values().stream().filter(ContainerStep::isReported).count(), live.size());
    assertEquals(live, known.containers, "containers of " + known.id);
    // other names need not be sent
    Set<String> places = new TreeSet<>();
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      places.addAll(Arrays.asList(node.getNodeName(), node.getRackName()));
    }
    TreeSet<String> requests = new TreeSet<>();
    TreeSet<String> localities = new TreeSet<>();
    for (SchedulerRequestKey key : app.getSchedulerKeys()) {
      AppPlacementAllocator<FiCaSchedulerNode> allocator = app.getAppPlacementAllocator(key);
      PendingAsk ask = allocator.getPendingAsk("*");
      if (key.getContainerToUpdate() != null || ask.getCount() == 0) {
        continue;
      }
      requests.add("priority=" + key.getPriority().getPriority() + " id=" + key.getAllocationRequestId() + " count="
          + ask.getCount() + " relax=" + (allocator.canDelayTo("*") ? 1 : 0) + " constrained="
          + (allocator.getSchedulingRequest() == null ? 0 : 1) + " partition="
          + allocator.getPrimaryRequestedNodePartition() + " " + amounts(ask.getPerAllocationResource()));
      for (ResourceRequest request : allocator.getResourceRequests().values()) {
        if (places.contains(request.getResourceName()) && request.getNumContainers() > 0) {
          localities.add(request.getResourceName() + "=" + request.getNumContainers() + " relax="
              + (request.getRelaxLocality() ? 1 : 0));
        }
      }
    }
    assertEquals(lines(requests), lines(known.requests.values()), "requests of " + known.id);
    TreeSet<String> sent = new TreeSet<>();
    known.localities.values().forEach(names -> names.entrySet().stream()
        .filter(entry -> places.contains(entry.getKey())).forEach(entry -> sent.add(entry.toString())));
    assertEquals(lines(localities), lines(sent), "localities of " + known.id);
    if (!app.isWaitingForAMContainer()) {
      TreeSet<String> blacklist = new TreeSet<>(app.getBlacklistedNodes());
      blacklist.retainAll(places);
      TreeSet<String> sentNames = new TreeSet<>(known.blacklist);
      sentNames.retainAll(places);
      assertEquals(blacklist, sentNames, "blacklist of " + known.id);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import java.lang.reflect.Field;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/** What the RM counts as used: to be compared before and after, and checked to add up. */
public final class Accounting {
  private final CapacityScheduler scheduler;

  /** The accounting of one scheduler. */
  public Accounting(CapacityScheduler scheduler) {
    this.scheduler = scheduler;
  }

  /** Everything that a commit may change, as text: equal texts, nothing changed. */
  public Map<String, String> snapshot() {
    Map<String, String> found = new TreeMap<>();
    addQueue(scheduler.getRootQueue(), found);
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      found.put("node " + node.getNodeID(), node.getUnallocatedResource() + " free, "
          + node.getNumContainers() + " containers, reserved " + node.getReservedContainer());
    }
    for (SchedulerApplication<FiCaSchedulerApp> application : scheduler.getSchedulerApplications().values()) {
      addAttempt(application.getCurrentAppAttempt(), found);
    }
    return found;
  }

  private void addQueue(CSQueue queue, Map<String, String> found) {
    found.put("queue " + queue.getQueuePath(), queue.getQueueResourceUsage().getAllUsed() + " used, "
        + queue.getQueueResourceUsage().getAllPending() + " pending, "
        + queue.getQueueResourceUsage().getAllReserved() + " reserved");
    if (queue.getChildQueues() != null) {
      queue.getChildQueues().forEach(child -> addQueue(child, found));
    }
  }

  private static void addAttempt(FiCaSchedulerApp attempt, Map<String, String> found) {
    StringBuilder asks = new StringBuilder();
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      asks.append(key.getPriority()).append(' ');
      attempt.getAppPlacementAllocator(key).getResourceRequests().forEach((name, request) ->
          asks.append(name).append('=').append(request.getNumContainers()).append(' '));
      asks.append(attempt.getPendingAsk(key, ResourceRequest.ANY).getCount()).append("; ");
    }
    found.put("attempt " + attempt.getApplicationAttemptId(),
        attempt.getAppAttemptResourceUsage().getAllUsed() + " used, " + attempt.getLiveContainers().size()
        + " containers, asks " + asks
        + unconfirmedMb(attempt) + " MB unconfirmed");
  }

  /** What the application believes to be on its way to it, MB: 0 whenever no commit is under way. */
  public static long unconfirmedMb(FiCaSchedulerApp attempt) {
    try {
      Field field = SchedulerApplicationAttempt.class.getDeclaredField("unconfirmedAllocatedMem");
      field.setAccessible(true);
      return ((Number) field.get(attempt)).longValue();
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * Checks that usage is the sum of the containers, on nodes, in applications and in queues, and that no node has given
   * out what it does not have.
   *
   * @return what does not add up, or the empty text
   */
  public String mistakes() {
    StringBuilder mistakes = new StringBuilder();
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      Resource used = Resources.createResource(0);
      for (RMContainer container : node.getCopiedListOfRunningContainers()) {
        Resources.addTo(used, container.getAllocatedResource());
      }
      compare("node " + node.getNodeID(), used, node.getAllocatedResource(), mistakes);
      if (node.getUnallocatedResource().getMemorySize() < 0) {
        mistakes.append("node ").append(node.getNodeID()).append(" has given out more than it has\n");
      }
    }
    Resource total = Resources.createResource(0);
    for (SchedulerApplication<FiCaSchedulerApp> application : scheduler.getSchedulerApplications().values()) {
      FiCaSchedulerApp attempt = application.getCurrentAppAttempt();
      Resource used = Resources.createResource(0);
      for (RMContainer container : attempt.getLiveContainers()) {
        Resources.addTo(used, container.getAllocatedResource());
      }
      compare("attempt " + attempt.getApplicationAttemptId(), used,
          attempt.getAppAttemptResourceUsage().getAllUsed(), mistakes);
      Resources.addTo(total, used);
      if (unconfirmedMb(attempt) != 0) {
        mistakes.append("attempt ").append(attempt.getApplicationAttemptId()).append(" has unconfirmed resources\n");
      }
    }
    compare("root", total, scheduler.getRootQueue().getQueueResourceUsage().getAllUsed(), mistakes);
    checkChildren(scheduler.getRootQueue(), mistakes);
    return mistakes.toString();
  }

  private static void checkChildren(CSQueue queue, StringBuilder mistakes) {
    Collection<CSQueue> children = queue.getChildQueues();
    if (children == null || children.isEmpty()) {
      return;
    }
    Resource used = Resources.createResource(0);
    for (CSQueue child : children) {
      Resources.addTo(used, child.getQueueResourceUsage().getAllUsed());
      checkChildren(child, mistakes);
    }
    compare("queue " + queue.getQueuePath(), used, queue.getQueueResourceUsage().getAllUsed(), mistakes);
  }

  private static void compare(String what, Resource sum, Resource booked, StringBuilder mistakes) {
    if (!sum.equals(booked)) {
      mistakes.append(what).append(": containers ").append(sum).append(", booked ").append(booked).append('\n');
    }
  }
}

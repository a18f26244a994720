// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/**
 * Features of the CapacityScheduler that enforce cannot serve: they are refused aloud, never silently lost. What
 * becomes of all the others is written in docs/features.md.
 */
public final class FeatureRules {
  static final String LAZY_PREEMPTION = "yarn.scheduler.capacity.lazy-preemption-enabled";
  static final String MULTI_NODE_PLACEMENT = "yarn.scheduler.capacity.multi-node-placement-enabled";
  static final String PREEMPTION_OBSERVE_ONLY = "yarn.resourcemanager.monitor.capacity.preemption.observe_only";
  static final String INTRA_QUEUE_PREEMPTION =
      "yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.enabled";
  static final String MASTERS_ON_LENT_NODES = "yarn.resourcemanager.node-labels.am.allow-non-exclusive-allocation";
  private static final String MONITORS = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.";
  private static final List<String> HARMLESS_MONITORS = Arrays.asList(
      MONITORS + "QueueConfigurationAutoRefreshPolicy", MONITORS + "AutoCreatedQueueDeletionPolicy",
      MONITORS + "QueueManagementDynamicEditPolicy");

  /** What preempts for containers that are reserved: none is while Treadle schedules. */
  static final List<String> RESERVATION_PREEMPTION = Arrays.asList(
      "yarn.resourcemanager.monitor.capacity.preemption.select_based_on_reserved_containers",
      "yarn.resourcemanager.monitor.capacity.preemption.additional_res_balance_based_on_reserved_containers",
      "yarn.scheduler.capacity.ordering-policy.priority-utilization.underutilized-preemption.enabled");
  private static final String POLICIES = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.";
  private static final List<String> ORDERS = Arrays.asList(POLICIES + "FifoOrderingPolicy",
      POLICIES + "FairOrderingPolicy", POLICIES + "FifoOrderingPolicyWithExclusivePartitions");

  private static final List<String> QUEUE_ORDERS = Arrays.asList("utilization", "priority-utilization");

  private FeatureRules() { }

  /**
   * Why proposals must not be committed on this site, as it is configured now.
   *
   * @param overridesGuarantees whether the engine's policy shares otherwise than the queues' capacities say
   * @param overridesOrder whether it serves a queue's applications otherwise than the queue says
   * @return a sentence for the administrator that names the key to change, or null if nothing is against it
   */
  public static String refusal(CapacityScheduler scheduler, boolean overridesGuarantees, boolean overridesOrder) {
    Configuration conf = scheduler.getConfiguration();
    boolean monitors = conf.getBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, false);
    boolean preempts = monitors && preempts(conf);
    if (monitors && conf.getBoolean(LAZY_PREEMPTION, false)) {
      return "lazy preemption only marks containers and leaves the killing to the placements of the stock scheduler:"
          + " set " + LAZY_PREEMPTION + " to false";
    }
    if (preempts && overridesGuarantees) {
      return "the policy's share overrides the guarantees of queues, which the preemption monitor would restore by"
          + " killing containers: set " + YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS + " to false, or"
          + " policy.share.kind in treadle.yaml to capacity";
    }
    if (preempts && overridesOrder && conf.getBoolean(INTRA_QUEUE_PREEMPTION, false)) {
      return "the policy serves the applications of a queue in an order of its own, and preemption inside queues would"
          + " kill containers to restore the queue's: set " + INTRA_QUEUE_PREEMPTION + " to false, or policy.order.kind"
          + " in treadle.yaml to queue and policy.gate.kind to all";
    }
    String reserving = RESERVATION_PREEMPTION.stream().filter(key -> conf.getBoolean(key, false))
        .collect(Collectors.joining(" and "));
    if (preempts && !reserving.isEmpty()) {
      return "preemption starts from reservations, which the stock scheduler makes and Treadle does not: set "
          + reserving + " to false";
    }
    if (conf.getBoolean(MULTI_NODE_PLACEMENT, false)) {
      return "multi-node placement orders the nodes by a policy of its own, which the engine does not follow: set "
          + MULTI_NODE_PLACEMENT + " to false";
    }
    if (conf.getBoolean(MASTERS_ON_LENT_NODES, false) && YarnConfiguration.areNodeLabelsEnabled(conf)) {
      return "the engine starts no application master on a node that a partition only lends: set "
          + MASTERS_ON_LENT_NODES + " to false";
    }
    return ofOrders(conf, scheduler.getRootQueue());
  }

  private static String ofOrders(Configuration conf, CSQueue queue) {
    String key = "yarn.scheduler.capacity." + queue.getQueuePath() + ".ordering-policy";
    boolean leaf = LeafQueues.isLeaf(queue);
    String policy = leaf ? LeafQueues.orderingPolicy(queue).getClass().getName()
        : conf.getTrimmed(key, QUEUE_ORDERS.get(0));
    if (!(leaf ? ORDERS : QUEUE_ORDERS).contains(policy)) {
      return "the engine does not follow " + policy + ", by which the queue " + queue.getQueuePath() + " orders its "
          + (leaf ? "applications" : "queues") + ": set " + key + " to "
          + (leaf ? "fifo, fair or fifo-with-partitions" : String.join(" or ", QUEUE_ORDERS));
    }
    List<CSQueue> children = queue.getChildQueues();
    return children == null ? null
        : children.stream().map(child -> ofOrders(conf, child)).filter(Objects::nonNull).findFirst().orElse(null);
  }

  /** Whether a monitor may kill containers: any but those that only change queues, unless it is set to only look. */
  private static boolean preempts(Configuration conf) {
    if (conf.getBoolean(PREEMPTION_OBSERVE_ONLY, false)) {
      return false;
    }
    String[] monitors = conf.getTrimmedStrings(YarnConfiguration.RM_SCHEDULER_MONITOR_POLICIES);
    return monitors.length == 0 || !HARMLESS_MONITORS.containsAll(Arrays.asList(monitors));
  }
}

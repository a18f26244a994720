// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.function.BinaryOperator;
import java.util.function.Predicate;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * Resources of the earlier proposals of an answer, as if they had been committed: on nodes, in queues, of users and of
 * requests. Empty when proposals are committed one by one, because then the RM knows.
 */
final class Assumptions {
  /** Nothing is assumed; never added to. */
  static final Assumptions NONE = new Assumptions();

  private final Map<Object, Map<String, Resource>> used = new IdentityHashMap<>();
  private final Map<Object, Map<String, Integer>> served = new IdentityHashMap<>();

  /** The resources assumed to be used on a node, in a queue or by a user in a partition; null for nothing. */
  Resource used(Object holder, String partition) {
    return used.getOrDefault(holder, Collections.emptyMap()).get(partition);
  }

  /** How many asks of a request key that name a node, a rack or {@code *} are assumed to be served. */
  int served(Object asks, String resourceName) {
    return served.getOrDefault(asks, Collections.emptyMap()).getOrDefault(resourceName, 0);
  }

  /** Takes a placement as if it were committed. */
  void add(Placement placement) {
    placement.user = LeafQueues.users(placement.leaf).getUser(placement.app.getUser());
    placement.partition = placement.node.getPartition();
    change(placement, 1);
  }

  /** Takes back what {@link #add} did. */
  void remove(Placement placement) {
    change(placement, -1);
  }

  private void change(Placement placement, int sign) {
    String partition = placement.partition;
    Resource amount = sign > 0 ? placement.capability : Resources.negate(placement.capability);
    serve(placement.asks, ResourceRequest.ANY, sign);
    if (placement.locality != NodeType.OFF_SWITCH) {
      serve(placement.asks, placement.node.getRackName(), sign);
    }
    if (placement.locality == NodeType.NODE_LOCAL) {
      serve(placement.asks, placement.node.getNodeName(), sign);
    }
    take(placement.node, partition, amount);
    if (placement.user != null) {
      take(placement.user, partition, amount);
    }
    for (CSQueue queue = placement.leaf; queue != null; queue = queue.getParent()) {
      take(queue, partition, amount);
    }
  }

  private void serve(Object asks, String resourceName, int sign) {
    add(served, asks, resourceName, sign, Integer::sum, sum -> sum == 0);
  }

  /** Takes an amount, which may be negative, of a node, queue or user. */
  void take(Object holder, String partition, Resource capability) {
    add(used, holder, partition, capability, Resources::add, Resources::isNone);
  }

  /** Adds to an amount; of one that is none again nothing is kept. */
  private static <T> void add(Map<Object, Map<String, T>> all, Object holder, String name, T more,
      BinaryOperator<T> sum, Predicate<T> none) {
    Map<String, T> amounts = all.computeIfAbsent(holder, any -> new HashMap<>(4));
    amounts.merge(name, more, sum);
    if (none.test(amounts.get(name))) {
      amounts.remove(name);
    }
    if (amounts.isEmpty()) {
      all.remove(holder);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
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
    Map<String, Resource> byPartition = used.isEmpty() ? null : used.get(holder);
    return byPartition == null ? null : byPartition.get(partition);
  }

  /** How many asks of a request key that name a node, a rack or {@code *} are assumed to be served. */
  int served(Object asks, String resourceName) {
    Map<String, Integer> byName = served.isEmpty() ? null : served.get(asks);
    return byName == null ? 0 : byName.getOrDefault(resourceName, 0);
  }

  /** Takes a placement as if it were committed. */
  void add(Placement placement) {
    placement.user = LeafQueues.users(placement.leaf).getUser(placement.app.getUser());
    change(placement, 1);
  }

  /** Takes back what {@link #add} did. */
  void remove(Placement placement) {
    change(placement, -1);
  }

  private void change(Placement placement, int sign) {
    String partition = placement.node.getPartition();
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
    served.computeIfAbsent(asks, any -> new HashMap<>(4)).merge(resourceName, sign, Integer::sum);
  }

  /** Takes an amount, which may be negative, of a node, queue or user. */
  void take(Object holder, String partition, Resource capability) {
    used.computeIfAbsent(holder, any -> new HashMap<>(2))
        .merge(partition, Resources.clone(capability), Resources::addTo);
  }
}

package io.treadle.shim.commit;

import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * What the earlier proposals of an answer would have taken, had they been committed: on nodes, in queues, of users and
 * of asks. Empty when proposals are really committed, because then the RM knows.
 */
final class Assumptions {
  /** Nothing is assumed; never added to. */
  static final Assumptions NONE = new Assumptions();

  private final Map<Object, Map<String, Resource>> used = new IdentityHashMap<>();
  private final Map<Object, Integer> served = new IdentityHashMap<>();

  /** What is assumed to be taken of a node, queue or user in a partition; null for nothing. */
  Resource used(Object holder, String partition) {
    Map<String, Resource> byPartition = used.isEmpty() ? null : used.get(holder);
    return byPartition == null ? null : byPartition.get(partition);
  }

  /** How many asks of a request key are assumed to be served. */
  int served(Object asks) {
    return served.isEmpty() ? 0 : served.getOrDefault(asks, 0);
  }

  /** Takes a placement as if it were committed. */
  void add(Placement placement, UsersManager.User user) {
    String partition = placement.node.getPartition();
    served.merge(placement.asks, 1, Integer::sum);
    take(placement.node, partition, placement.capability);
    if (user != null) {
      take(user, partition, placement.capability);
    }
    for (CSQueue queue = placement.leaf; queue != null; queue = queue.getParent()) {
      take(queue, partition, placement.capability);
    }
  }

  private void take(Object holder, String partition, Resource capability) {
    used.computeIfAbsent(holder, any -> new HashMap<>(2))
        .merge(partition, Resources.clone(capability), Resources::addTo);
  }
}

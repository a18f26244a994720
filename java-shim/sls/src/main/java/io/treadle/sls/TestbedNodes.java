// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Gives nodes their attributes, as an administrator does with {@code yarn nodeattributes}: SLS's nodes register without
 * any.
 */
final class TestbedNodes {
  private static final long POLL_MS = 20;

  private TestbedNodes() {
  }

  /** Gives them, and returns when the scheduler knows all nodes and their attributes. */
  static void attribute(CapacityScheduler scheduler, int nodes, Map<String, Map<String, String>> wanted)
      throws IOException, InterruptedException {
    if (wanted.isEmpty()) {
      return;
    }
    while (scheduler.getNumClusterNodes() < nodes) {
      Thread.sleep(POLL_MS);
    }
    Map<String, Set<NodeAttribute>> given = new HashMap<>();
    wanted.forEach((host, texts) -> {
      Set<NodeAttribute> attributes = new HashSet<>();
      texts.forEach((name, value) -> attributes.add(
          NodeAttribute.newInstance(NodeAttribute.PREFIX_CENTRALIZED, name, NodeAttributeType.STRING, value)));
      given.put(host, attributes);
    });
    scheduler.getRMContext().getNodeAttributesManager().addNodeAttributes(given);
    while (known(scheduler) < given.size()) {
      Thread.sleep(POLL_MS);
    }
  }

  private static int known(CapacityScheduler scheduler) {
    int found = 0;
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      if (node.getNodeAttributes() != null && !node.getNodeAttributes().isEmpty()) {
        found++;
      }
    }
    return found;
  }
}

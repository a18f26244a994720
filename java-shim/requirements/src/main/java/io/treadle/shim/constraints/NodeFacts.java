// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeKey;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/** A node of the scheduler as requirements see it, read as it is now. */
final class NodeFacts {
  /** How requirements name the partition of nodes without a label. */
  private static final String DEFAULT_PARTITION = "default";

  private final SchedulerNode node;

  NodeFacts(SchedulerNode node) {
    this.node = node;
  }

  /**
   * What the node has under a name in lower case: {@code rack}, {@code host}, {@code partition}, the total of a
   * resource type, else an attribute; without a prefix those of that name under any prefix.
   *
   * @throws java.util.ConcurrentModificationException if the attributes changed meanwhile: the scheduler's set is a
   *     view of a map that other threads change
   */
  List<String> values(String name) {
    switch (name) {
      case "rack":
        return Collections.singletonList(node.getRackName());
      case "host":
        // the scheduler's name of a node may end in its port
        return Collections.singletonList(node.getNodeName().replaceFirst(":[0-9]+$", ""));
      case "partition":
        String partition = node.getPartition();
        return Collections.singletonList(partition == null || partition.isEmpty() ? DEFAULT_PARTITION : partition);
      default:
        List<String> totals = totals(name);
        return totals.isEmpty() ? attributes(name) : totals;
    }
  }

  private List<String> totals(String name) {
    List<String> found = new ArrayList<>(1);
    for (ResourceInformation type : node.getTotalResource().getResources()) {
      if (type.getName().toLowerCase(Locale.ROOT).equals(name)) {
        found.add(Long.toString(type.getValue()));
      }
    }
    return found;
  }

  private List<String> attributes(String name) {
    Set<NodeAttribute> attributes = node.getNodeAttributes();
    boolean full = name.indexOf('/') >= 0;
    List<String> found = new ArrayList<>(1);
    for (NodeAttribute attribute : attributes == null ? Collections.<NodeAttribute>emptySet() : attributes) {
      NodeAttributeKey key = attribute.getAttributeKey();
      String whole = key.getAttributePrefix() + "/" + key.getAttributeName();
      String lower = (full ? whole : key.getAttributeName()).toLowerCase(Locale.ROOT);
      if (lower.equals(name)) {
        found.add(String.valueOf(attribute.getAttributeValue()));
      }
    }
    return found;
  }
}

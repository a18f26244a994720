// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/** What changed between two looks of the mirror at its {@link Journal}. Never altered after that. */
final class Changes {
  /** Nodes that came, went or changed. */
  final Set<NodeId> nodes = new HashSet<>();
  /** Whether every node may have changed. */
  boolean allNodes;
  /** Hosts whose nodes have other attributes than before. */
  final Set<String> attributes = new HashSet<>();
  /** Applications that came, went or changed otherwise than by {@link #steps}. */
  final Set<ApplicationId> applications = new HashSet<>();
  /** Applications with other requests or another blacklist than before. */
  final Set<ApplicationId> asks = new HashSet<>();
  /** Whether queues or the cluster's size changed. */
  boolean queues;
  /** Steps of containers, in order. */
  final List<ContainerStep> steps = new ArrayList<>();
  /** Whether marks before these were forgotten or never made, so that only a snapshot has everything. */
  boolean snapshot;

  int size() {
    return nodes.size() + attributes.size() + applications.size() + asks.size() + steps.size();
  }

  /** Adds the nodes on which containers came, went or changed their size; once, before anybody reads it. */
  void addNodesOfSteps() {
    for (ContainerStep step : steps) {
      if (step.kind != ContainerStep.LAUNCHED) {
        nodes.add(step.node);
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.journal;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/** What changed between two looks of the mirror at its {@link Journal}. Never altered after that. */
public final class Changes {
  final Set<NodeId> nodes = new HashSet<>();
  final Set<ApplicationId> applications = new HashSet<>();
  final Set<ApplicationId> asks = new HashSet<>();
  final Set<ApplicationId> asksLater = new HashSet<>();
  final Set<ApplicationId> blacklists = new HashSet<>();
  final Set<ApplicationId> usages = new HashSet<>();
  final List<ContainerStep> steps = new ArrayList<>();
  final Set<String> attributes = new HashSet<>();
  boolean allNodes;
  boolean queues;
  /** Whether marks before these were forgotten. */
  boolean forgotten;

  Changes() {
  }

  int size() {
    return nodes.size() + applications.size() + asks.size() + asksLater.size() + blacklists.size() + usages.size()
        + attributes.size() + steps.size();
  }

  /** Adds the nodes on which containers came, went or changed their size; once, before anybody reads it. */
  void addNodesOfSteps() {
    for (ContainerStep step : steps) {
      if (step.kind != ContainerStep.Kind.LAUNCHED) {
        nodes.add(step.node);
      }
    }
  }

  /** Nodes that came, went or changed. */
  public Set<NodeId> nodes() {
    return Collections.unmodifiableSet(nodes);
  }

  /** Hosts whose nodes have other attributes than before. */
  public Set<String> attributes() {
    return Collections.unmodifiableSet(attributes);
  }

  /** Whether every node may have changed. */
  public boolean allNodes() {
    return allNodes;
  }

  /** Applications that came, went or changed. */
  public Set<ApplicationId> applications() {
    return Collections.unmodifiableSet(applications);
  }

  /** Applications with other requests than before. */
  public Set<ApplicationId> asks() {
    return Collections.unmodifiableSet(asks);
  }

  /** Applications whose requests have to be looked at once more a little later. */
  public Set<ApplicationId> asksLater() {
    return Collections.unmodifiableSet(asksLater);
  }

  /** Applications with another blacklist. */
  public Set<ApplicationId> blacklists() {
    return Collections.unmodifiableSet(blacklists);
  }

  /** Applications whose usage changed otherwise than by {@link #steps}. */
  public Set<ApplicationId> usages() {
    return Collections.unmodifiableSet(usages);
  }

  /** Whether queues or the cluster's size changed. */
  public boolean queues() {
    return queues;
  }

  /** Steps of containers, in order. */
  public List<ContainerStep> steps() {
    return Collections.unmodifiableList(steps);
  }

  /** Whether marks were lost or never made, so that only a snapshot has everything. */
  public boolean snapshot() {
    return forgotten;
  }
}

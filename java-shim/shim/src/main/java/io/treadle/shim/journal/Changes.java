package io.treadle.shim.journal;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/** What a {@link Journal} held when it was drained. Owned by the thread that drained it. */
public final class Changes {
  final Set<NodeId> nodes = new HashSet<>();
  final Set<ApplicationId> applications = new HashSet<>();
  final Set<ApplicationId> asks = new HashSet<>();
  final Set<ApplicationId> asksLater = new HashSet<>();
  final Set<ApplicationId> blacklists = new HashSet<>();
  final Set<ApplicationId> usages = new HashSet<>();
  final Map<NodeId, Integer> othersCommits = new HashMap<>();
  final List<ContainerStep> steps = new ArrayList<>();
  final FateColumns fates = new FateColumns();
  final Set<String> attributes = new HashSet<>();
  boolean allNodes;
  boolean queues;
  boolean snapshot;

  Changes() {
  }

  int size() {
    return nodes.size() + applications.size() + asks.size() + asksLater.size() + blacklists.size() + usages.size()
        + othersCommits.size() + attributes.size() + steps.size() + fates.size();
  }

  /** Nodes that came, went or changed. */
  public Set<NodeId> nodes() {
    return nodes;
  }

  /** Hosts whose nodes have other attributes than before. */
  public Set<String> attributes() {
    return attributes;
  }

  /** Whether every node may have changed. */
  public boolean allNodes() {
    return allNodes;
  }

  /** How often others than the engine have committed on nodes. */
  public Map<NodeId, Integer> othersCommits() {
    return othersCommits;
  }

  /** Applications that came, went or changed. */
  public Set<ApplicationId> applications() {
    return applications;
  }

  /** Applications with other requests than before. */
  public Set<ApplicationId> asks() {
    return asks;
  }

  /** Applications whose requests have to be looked at once more a little later. */
  public Set<ApplicationId> asksLater() {
    return asksLater;
  }

  /** Applications with another blacklist. */
  public Set<ApplicationId> blacklists() {
    return blacklists;
  }

  /** Applications whose usage changed otherwise than by {@link #steps}. */
  public Set<ApplicationId> usages() {
    return usages;
  }

  /** Whether queues or the cluster's size changed. */
  public boolean queues() {
    return queues;
  }

  /** Steps of containers, in order. */
  public List<ContainerStep> steps() {
    return steps;
  }

  /** Fates of proposals, in order. */
  public FateColumns fates() {
    return fates;
  }

  /** Whether marks were lost or never made, so that only a snapshot tells everything. */
  public boolean snapshot() {
    return snapshot;
  }
}

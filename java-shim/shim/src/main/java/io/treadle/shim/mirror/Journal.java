// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * The changes. Any thread marks; one mirror reads. A mark is an insertion into a small set under a lock that is never
 * held for longer, so that no RM thread waits. Marks name the changed object, never how: the mirror reads the state
 * when it writes the frame. Bounded: with more marks than fit before a read, everything is forgotten and the mirror
 * gets a snapshot; until it reads again, and while it does not, marking costs next to nothing (so an unread journal
 * does no harm).
 */
public final class Journal {
  private final int capacity;
  private final Object lock = new Object();
  private volatile boolean paused;
  private final Runnable onMark;
  private Changes changes;
  private boolean woken;

  /**
   * A new journal without a reader.
   *
   * @param capacity how many marks it keeps until the next frame, at least 1
   * @param onMark run at the first mark after the mirror has read, on the thread that marks and under the lock: it must
   *     return at once and not throw
   */
  public Journal(int capacity, Runnable onMark) {
    this.capacity = capacity;
    this.onMark = onMark;
    snapshotNeeded();
  }

  /** A node came, went, or has other resources, another state or partition, or a reservation. */
  public void nodeChanged(NodeId node) {
    mark(changes -> changes.nodes.add(node));
  }

  /**
   * An application or its attempt came, went, or changed its state, queue, priority or usage; see {@link #container}.
   */
  public void applicationChanged(ApplicationId application) {
    mark(changes -> changes.applications.add(application));
  }

  /** An application's requests changed otherwise than by an allocation, or its {@code blacklist} did. */
  public void asksChanged(ApplicationId application, boolean blacklist) {
    mark(changes -> changes.asks.merge(application, blacklist, Boolean::logicalOr));
  }

  /** The queues, their configuration or the cluster's size changed. */
  public void queuesChanged() {
    mark(changes -> changes.queues = true);
  }

  /** A container's life went on: its node, its application's usage and the request at its key changed, too. */
  void container(ContainerStep step) {
    mark(changes -> changes.steps.add(step));
  }

  /** Forgets all marks and makes none until the next {@link #take}, which says that everything may have changed. */
  public void snapshotNeeded() {
    synchronized (lock) {
      paused = true;
      changes = new Changes();
      changes.snapshot = true;
      wake();
    }
  }

  /** Whether marks are skipped now, since the next reader reads everything. */
  public boolean isPaused() {
    return paused;
  }

  /**
   * What changed since the last call; or that everything may have, if this is the first one or marks were forgotten.
   * What changes from now on is for the next call.
   */
  Changes take() {
    synchronized (lock) {
      Changes taken = changes;
      changes = new Changes();
      paused = false;
      woken = false;
      return taken;
    }
  }

  /** Marks what changed otherwise, under the lock. */
  void mark(Consumer<Changes> mark) {
    if (!paused) {
      synchronized (lock) {
        mark.accept(changes);
        if (changes.size() > capacity) {
          snapshotNeeded();
        }
        wake();
      }
    }
  }

  private void wake() {
    if (!woken) {
      woken = true;
      onMark.run();
    }
  }

  /** What changed between two looks of the mirror. Never altered after that. */
  static final class Changes {
    /** Nodes that came, went or changed otherwise than by {@link #steps}. */
    final Set<NodeId> nodes = new HashSet<>();
    /** Whether every node may have changed. */
    boolean allNodes;
    /** Hosts whose nodes have other attributes than before. */
    final Set<String> attributes = new HashSet<>();
    /** Applications that came, went or changed otherwise than by {@link #steps}. */
    final Set<ApplicationId> applications = new HashSet<>();
    /** Applications with other requests than before; whether their blacklists are others, too. */
    final Map<ApplicationId, Boolean> asks = new HashMap<>();
    /** Whether queues or the cluster's size changed. */
    boolean queues;
    /** Steps of containers, in order. */
    final List<ContainerStep> steps = new ArrayList<>();
    /** Whether marks before these were forgotten or never made, so that only a snapshot has everything. */
    boolean snapshot;

    int size() {
      return nodes.size() + attributes.size() + applications.size() + asks.size() + steps.size();
    }
  }
}

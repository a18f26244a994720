// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.Log;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * The asks of active applications that would pass every check of a commit on some node. Bounded in work: a step is a
 * look at an application, an ask or a node; the scheduler's read lock is held for a few hundred steps at a time and
 * given back when a heartbeat waits, a tick has a few thousand, a search some hundred thousand, and on a cluster
 * without room it ends at once.
 */
public final class PlaceableAsks implements AskSearch {
  private static final Log LOG = new Log(PlaceableAsks.class);
  private static final int STEPS_PER_LOCK = 256;
  /** After how many steps a heartbeat that waits gets the lock. */
  private static final int STEPS_BEFORE_HEARTBEAT = 32;
  private static final int LOCKS_PER_CALL = 16;
  private static final int STEPS_PER_SEARCH = 1 << 18;
  private static final int NODES_PASSED_OVER_A_STEP = 32;
  /** How many asks are proof enough. */
  private static final int MOST_FOUND = 256;
  private static final int MOST_CAPABILITIES = 64;

  private final SchedulerPort port;
  private final EngineView view;
  private final Checks checks;
  private final Diagnosis diagnosis;
  private final Placement placement = new Placement();
  private final Set<Ask> found = new LinkedHashSet<>();
  private final List<FiCaSchedulerApp> apps = new ArrayList<>();
  /** Nodes that may be used and have room for the smallest container. */
  private final List<FiCaSchedulerNode> open = new ArrayList<>();
  /** Those of them on which an ask of that size fits. */
  private final Map<Resource, List<FiCaSchedulerNode>> fitting = new HashMap<>();
  /** Partitions that the ask that is looked at may not use, or in which it exceeds a limit. */
  private final Set<String> limited = new HashSet<>();
  private final List<SchedulerRequestKey> keys = new ArrayList<>();
  private int app;
  private int key;
  private int node;
  private int steps;
  private boolean complete;

  /** A search that has not begun. */
  public PlaceableAsks(SchedulerPort port, CommitSettings settings, EngineView view) {
    this.port = port;
    this.view = view;
    this.checks = new Checks(port.scheduler(), settings, view);
    this.diagnosis = new Diagnosis(port.scheduler());
  }

  @Override
  public void begin() {
    forget();
    found.clear();
    CapacityScheduler scheduler = port.scheduler();
    Resource smallest = scheduler.getMinimumResourceCapability();
    for (FiCaSchedulerNode candidate : scheduler.getAllNodes()) {
      if (Resources.fitsIn(scheduler.getResourceCalculator(), smallest, candidate.getUnallocatedResource())
          && checks.checkCondition(candidate) == null) {
        open.add(candidate);
      }
    }
    if (open.isEmpty()) {
      return;
    }
    for (SchedulerApplication<FiCaSchedulerApp> application : scheduler.getSchedulerApplications().values()) {
      SchedulerApplicationAttempt attempt = application.getCurrentAppAttempt();
      if (attempt instanceof FiCaSchedulerApp) {
        apps.add((FiCaSchedulerApp) attempt);
      }
    }
  }

  private void forget() {
    apps.clear();
    open.clear();
    fitting.clear();
    keys.clear();
    app = 0;
    key = 0;
    node = 0;
    steps = 0;
    complete = false;
  }

  @Override
  public boolean goOn() {
    Lock lock = port.readLock();
    for (int i = 0; i < LOCKS_PER_CALL; i++) {
      boolean over;
      lock.lock();
      try {
        over = piece();
      } finally {
        checks.end();
        placement.clear();
        lock.unlock();
      }
      if (over) {
        Set<Ask> kept = new LinkedHashSet<>(found);
        boolean all = complete;
        forget();
        found.addAll(kept);
        complete = all;
        return true;
      }
      LockSupport.parkNanos(1);
    }
    return false;
  }

  @Override
  public boolean complete() {
    return complete;
  }

  @Override
  public Set<Ask> found() {
    return found;
  }

  /** Goes on with the lock view, until something says that it is long enough; answers whether the search is over. */
  private boolean piece() {
    Resource cluster = port.scheduler().getClusterResource();
    int least = steps + STEPS_BEFORE_HEARTBEAT;
    int most = steps + STEPS_PER_LOCK;
    while (steps < least || steps < most && !port.heartbeatWaits()) {
      if (app >= apps.size()) {
        complete = true;
        return true;
      }
      if (found.size() >= MOST_FOUND || steps >= STEPS_PER_SEARCH) {
        return true;
      }
      steps++;
      try {
        step(cluster);
      } catch (RuntimeException e) {
        // an application that cannot be looked at is no reason to give up the lease
        LOG.failure("a look for asks that could be placed", e);
        nextApp();
      }
    }
    return false;
  }

  private void step(Resource cluster) {
    FiCaSchedulerApp current = apps.get(app);
    if (key == 0 && node == 0 && !opens(current)) {
      nextApp();
    } else if (key >= keys.size()) {
      nextApp();
    } else if (!tryNext(current, keys.get(key), cluster)) {
      node++;
    } else {
      key++;
      node = 0;
      limited.clear();
    }
  }

  private boolean opens(FiCaSchedulerApp current) {
    keys.clear();
    if (current.isStopped() || !checks.isActive(current, (CSQueue) current.getQueue())) {
      return false;
    }
    int left = view.keys(current.getApplicationAttemptId());
    for (SchedulerRequestKey each : current.getSchedulerKeys()) {
      // the engine knows no more of them
      if (left-- == 0) {
        break;
      }
      if (each.getContainerToUpdate() == null) {
        keys.add(each);
      }
    }
    return true;
  }

  private void nextApp() {
    app++;
    key = 0;
    node = 0;
    keys.clear();
    limited.clear();
  }

  /** Tries an ask on the next node; answers whether nothing is left to be tried for it. */
  private boolean tryNext(FiCaSchedulerApp current, SchedulerRequestKey asked, Resource cluster) {
    placement.clear();
    placement.app = current;
    placement.leaf = (CSQueue) current.getQueue();
    placement.key = asked;
    placement.asks = current.getAppPlacementAllocator(asked);
    if (placement.asks == null || placement.asks.getOutstandingAsksCount(ResourceRequest.ANY) <= 0) {
      return true;
    }
    List<FiCaSchedulerNode> nodes =
        nodesFor(placement.asks.getPendingAsk(ResourceRequest.ANY).getPerAllocationResource());
    passOverLimited(nodes);
    if (node >= nodes.size()) {
      return true;
    }
    placement.node = nodes.get(node);
    String partition = placement.node.getPartition();
    if (checks.checkCondition(placement.node) != null) {
      return false;
    }
    Fate misplaced = checks.checkPlace(placement);
    if (misplaced != null) {
      if (misplaced == Fate.WRONG_PARTITION) {
        limited.add(partition);
      }
      return false;
    }
    Fate reason = diagnosis.reasonAgainst(placement, cluster, Assumptions.NONE);
    if (reason == null) {
      found.add(new Ask(current.getApplicationAttemptId(), asked));
      return true;
    }
    if (reason == Fate.USER_LIMIT || reason == Fate.QUEUE_MAXIMUM) {
      limited.add(partition);
    }
    return reason == Fate.NO_PENDING_ASK || reason == Fate.STOPPED_ATTEMPT;
  }

  /** Goes on to a node whose partition is not out of the question: a step would be too much for each of the others. */
  private void passOverLimited(List<FiCaSchedulerNode> nodes) {
    int from = node;
    while (!limited.isEmpty() && node < nodes.size() && limited.contains(nodes.get(node).getPartition())) {
      node++;
    }
    steps += (node - from) / NODES_PASSED_OVER_A_STEP;
  }

  private List<FiCaSchedulerNode> nodesFor(Resource capability) {
    List<FiCaSchedulerNode> nodes = fitting.get(capability);
    if (nodes == null) {
      nodes = new ArrayList<>();
      for (FiCaSchedulerNode candidate : open) {
        if (Resources.fitsIn(port.scheduler().getResourceCalculator(), capability,
            candidate.getUnallocatedResource())) {
          nodes.add(candidate);
        }
      }
      steps += open.size() / 8;
      if (fitting.size() >= MOST_CAPABILITIES) {
        fitting.clear();
      }
      fitting.put(Resources.clone(capability), nodes);
    }
    return nodes;
  }
}

package io.treadle.shim.mirror;

import io.treadle.shim.journal.ContainerStep;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Writes steps in the lives of containers; in a snapshot the last step of each container alive. Remembers which ones
 * Treadle placed, as long as they and their application live, and which are alive as far as was told.
 *
 * <p>A step may never come: then a container would run for ever in the engine's eyes. So what was told of a node is
 * compared in turns with what the scheduler has there. What was missing twice, {@value #MISSING_MS} ms apart, has
 * ended unseen; its step could not take that long.
 */
final class ContainerSection {
  static final long MISSING_MS = 1000;

  private final Map<ApplicationId, Set<ContainerId>> treadles = new HashMap<>();
  private final Map<NodeId, Told> told = new HashMap<>();
  private final List<Told> toldInOrder = new ArrayList<>();
  private final Sweep sweep = new Sweep(MISSING_MS);
  private final NodeSection nodes;

  ContainerSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  /** What was told of a node's containers. */
  private static final class Told {
    private final NodeId node;
    /** The last step of each that has not ended. */
    private final Map<ContainerId, ContainerStep> alive = new HashMap<>();
    /** Those that the scheduler did not have on the node when it was looked at, and when that was. */
    private Set<ContainerId> missing = Collections.emptySet();
    private long missingMs;

    Told(NodeId node) {
      this.node = node;
    }
  }

  /** Forgets what was told, but not who placed it. */
  void reset() {
    told.clear();
    toldInOrder.clear();
  }

  /** Forgets containers of applications that have gone. */
  void keepOnly(Set<ApplicationId> alive) {
    treadles.keySet().retainAll(alive);
  }

  /** An application has gone. */
  void forget(ApplicationId application) {
    treadles.remove(application);
  }

  /** Writes a step; {@code row} is the container's application attempt, null if that has gone. */
  void write(Draft draft, ContainerStep step, ApplicationRow row) {
    boolean byTreadle = byTreadle(step, row != null);
    remember(step);
    draft.section(Section.CONTAINERS).i64(step.container().getContainerId()).i32(row == null ? -1 : row.index)
        .i32(step.requestKey() == null ? 0 : step.requestKey().getPriority().getPriority())
        .i32(nodes.index(step.node())).u8(step.kind().code()).i64(step.timeMs()).i64(step.createdMs())
        .i32(step.exitStatus()).flag(byTreadle).flag(step.am()).amounts(step.capability()).end();
  }

  private void remember(ContainerStep step) {
    if (step.kind() != ContainerStep.Kind.COMPLETED) {
      told.computeIfAbsent(step.node(), node -> {
        Told fresh = new Told(node);
        toldInOrder.add(fresh);
        return fresh;
      }).alive.put(step.container(), step);
    } else if (told.containsKey(step.node())) {
      told.get(step.node()).alive.remove(step.container());
    }
  }

  /** Looks at the nodes that are due and returns the ends of containers that ended unseen, to be written. */
  List<ContainerStep> unseenEnds(Draft draft) {
    List<ContainerStep> ends = new ArrayList<>();
    int size = toldInOrder.size();
    for (int left = sweep.due(size, draft.monotonicMs()); left > 0; left--) {
      review(draft, toldInOrder.get(sweep.next(size)), ends);
    }
    return ends;
  }

  private static void review(Draft draft, Told of, List<ContainerStep> ends) {
    FiCaSchedulerNode node = draft.scheduler().getNode(of.node);
    if (of.alive.isEmpty() || node != null && of.alive.size() <= node.getNumContainers() && of.missing.isEmpty()) {
      of.missing = Collections.emptySet();
      return;
    }
    Set<ContainerId> missing = new HashSet<>(of.alive.keySet());
    if (node != null) {
      for (RMContainer container : node.getCopiedListOfRunningContainers()) {
        if (ContainerStep.isTold(container)) {
          missing.remove(container.getContainerId());
        }
      }
    }
    long nowMs = draft.monotonicMs();
    if (of.missing.isEmpty()) {
      of.missingMs = nowMs;
      of.missing = missing;
    } else if (nowMs - of.missingMs >= MISSING_MS) {
      missing.stream().filter(of.missing::contains)
          .forEach(container -> ends.add(of.alive.get(container).lost(draft.rmTimeMs())));
      of.missing = Collections.emptySet();
    }
  }

  private boolean byTreadle(ContainerStep step, boolean alive) {
    ApplicationId application = step.container().getApplicationAttemptId().getApplicationId();
    ContainerId id = step.container();
    switch (step.kind()) {
      case ALLOCATED:
        if (step.byTreadle() && alive) {
          treadles.computeIfAbsent(application, key -> new HashSet<>()).add(id);
        }
        return step.byTreadle();
      case COMPLETED:
        return treadles.getOrDefault(application, Collections.emptySet()).remove(id);
      default:
        return treadles.getOrDefault(application, Collections.emptySet()).contains(id);
    }
  }

  /** Writes the containers of an application that are alive, for a snapshot. */
  void writeLive(Draft draft, ApplicationRow row) {
    Set<ContainerId> ours = treadles.getOrDefault(row.app.getApplicationId(), Collections.emptySet());
    // the steps in which others ended may have been lost with an overflow, or while there was no engine
    ours.removeIf(container -> !row.app.getLiveContainersMap().containsKey(container));
    for (RMContainer container : row.app.getLiveContainersMap().values()) {
      if (!ContainerStep.isTold(container)) {
        continue;
      }
      boolean running = container.getState() == RMContainerState.RUNNING;
      boolean byTreadle = ours.contains(container.getContainerId());
      write(draft, running ? ContainerStep.launched(container, container.getCreationTime())
          : ContainerStep.allocated(container, byTreadle, container.isAMContainer()), row);
    }
  }
}

package io.treadle.shim.mirror;

import io.treadle.shim.journal.ContainerStep;
import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;

/**
 * Writes steps in the lives of containers; in a snapshot the last step of each container alive. Remembers which ones
 * Treadle placed, as long as they and their application live.
 */
final class ContainerSection {
  private final Map<ApplicationId, Set<ContainerId>> treadles = new HashMap<>();
  private final NodeSection nodes;

  ContainerSection(NodeSection nodes) {
    this.nodes = nodes;
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
    draft.section(Section.CONTAINERS).i64(step.container().getContainerId()).i32(row == null ? -1 : row.index)
        .i32(step.requestKey() == null ? 0 : step.requestKey().getPriority().getPriority())
        .i32(nodes.index(step.node())).u8(step.kind().code()).i64(step.timeMs()).i64(step.createdMs())
        .i32(step.exitStatus()).flag(byTreadle).flag(step.am()).amounts(step.capability()).end();
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
      boolean running = container.getState() == RMContainerState.RUNNING;
      boolean byTreadle = ours.contains(container.getContainerId());
      write(draft, running ? ContainerStep.launched(container, container.getCreationTime())
          : ContainerStep.allocated(container, byTreadle, container.isAMContainer()), row);
    }
  }
}

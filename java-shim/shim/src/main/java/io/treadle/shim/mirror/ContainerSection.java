// SPDX-License-Identifier: Apache-2.0
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
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;

/**
 * Writes container events; in a snapshot the last step of each container alive. Remembers which ones Treadle placed, as
 * long as they and their application live, and which are alive as far as was sent.
 *
 * <p>A step may never come: then a container would run for ever in the engine's eyes, or never. So what was sent of an
 * application is compared in turns with what the scheduler has. What differs twice, {@value #UNSEEN_MS} ms apart, was
 * not seen; its step could not take that long.
 */
final class ContainerSection {
  static final long UNSEEN_MS = 1000;
  /** From this bit on the number of a container has its attempt, if a later one keeps it. */
  static final int KEPT_SHIFT = 56;

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

  /** Writes a step; {@code attempt} is the current attempt of the container's application, null if there is none. */
  void write(Draft draft, ContainerStep step, ApplicationSection.Row attempt) {
    ContainerId id = step.container;
    ApplicationSection.Row row = attempt != null && (isOf(id, attempt) || isKept(id, attempt)) ? attempt : null;
    boolean ours = step.kind == ContainerStep.Kind.ALLOCATED ? step.byTreadle : ours(id).contains(id);
    draft.section(Section.CONTAINERS).i64(number(id, row)).i32(row == null ? -1 : row.index)
        .i32(step.requestKey == null ? 0 : step.requestKey.getPriority().getPriority()).i32(nodes.index(step.node))
        .u8(step.kind.code()).i64(step.timeMs).i64(step.createdMs).i32(step.exitStatus).flag(ours).flag(step.am)
        .amounts(step.capability).end();
    if (step.kind == ContainerStep.Kind.COMPLETED) {
      ours(id).remove(id);
      if (row != null) {
        row.containersAlive.remove(id);
      }
    } else if (row != null) {
      row.containersAlive.put(id, step);
      if (step.kind == ContainerStep.Kind.ALLOCATED && ours) {
        treadles.computeIfAbsent(id.getApplicationAttemptId().getApplicationId(), key -> new HashSet<>()).add(id);
      }
    }
  }

  /** Which containers of a container's application Treadle placed. */
  private Set<ContainerId> ours(ContainerId id) {
    return treadles.getOrDefault(id.getApplicationAttemptId().getApplicationId(), Collections.emptySet());
  }

  /** A number that is unique within {@code row}'s attempt: those of YARN begin again with each. */
  private static long number(ContainerId id, ApplicationSection.Row row) {
    boolean kept = row != null && !isOf(id, row);
    return kept ? id.getContainerId() | (id.getApplicationAttemptId().getAttemptId() & 0x7FL) << KEPT_SHIFT
        : id.getContainerId();
  }

  private static boolean isOf(ContainerId container, ApplicationSection.Row attempt) {
    return attempt.app.getApplicationAttemptId().equals(container.getApplicationAttemptId());
  }

  /**
   * Whether an attempt took a container over from an earlier one; of one that has just ended what was sent shows that.
   */
  private static boolean isKept(ContainerId container, ApplicationSection.Row attempt) {
    return attempt.containersAlive.containsKey(container) || attempt.app.getRMContainer(container) != null;
  }

  /** Compares what was sent of an attempt's containers with the scheduler's; returns steps unseen, to be written. */
  List<ContainerStep> review(Draft draft, ApplicationSection.Row row) {
    Map<ContainerId, RMContainer> live = row.app.getLiveContainersMap();
    Map<ContainerId, ContainerStep> differing = new HashMap<>();
    if (live.size() != row.containersAlive.size() || !row.differing.isEmpty()) {
      row.containersAlive.forEach((id, step) -> {
        if (!live.containsKey(id)) {
          differing.put(id, step.lost(draft.rmTimeMs));
        }
      });
      live.forEach((id, container) -> {
        if (ContainerStep.isReported(container) && !row.containersAlive.containsKey(id)) {
          differing.put(id, step(container));
        }
      });
    }
    List<ContainerStep> unseen = new ArrayList<>();
    if (row.differing.isEmpty()) {
      row.differingMs = draft.monotonicMs;
      row.differing = differing.keySet();
    } else if (draft.monotonicMs - row.differingMs >= UNSEEN_MS) {
      differing.keySet().retainAll(row.differing);
      unseen.addAll(differing.values());
      row.differing = Collections.emptySet();
    }
    return unseen;
  }

  /** Writes the containers of an attempt that are alive: all, or those that it took over from earlier attempts. */
  void writeLive(Draft draft, ApplicationSection.Row row, boolean all) {
    // the steps in which others ended may have been lost with an overflow, or while there was no engine
    treadles.getOrDefault(row.app.getApplicationId(), Collections.emptySet())
        .removeIf(container -> !row.app.getLiveContainersMap().containsKey(container));
    for (RMContainer container : row.app.getLiveContainersMap().values()) {
      if (ContainerStep.isReported(container) && (all || !isOf(container.getContainerId(), row))) {
        write(draft, step(container), row);
      }
    }
  }

  /** The last step of a container. */
  private ContainerStep step(RMContainer container) {
    ContainerId id = container.getContainerId();
    return container.getState() == RMContainerState.RUNNING
        ? ContainerStep.launched(container, container.getCreationTime())
        : ContainerStep.allocated(container, ours(id).contains(id), container.isAMContainer());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;

/**
 * Writes container events; in a snapshot the last step of each container alive. Remembers which ones Treadle placed, as
 * long as they and their application live, and which are alive as far as was sent.
 *
 * <p>A step may never come: then a container would run endlessly in the engine's model, or never. So the steps sent of
 * an application are compared in turns with the scheduler's. A difference seen twice, {@value #UNSEEN_MS} ms apart, is
 * a lost step, which could not take that long.
 */
final class ContainerSection {
  static final long UNSEEN_MS = 1000;
  /** In how many turns its containers are compared once: of a busy application some steps are on their way. */
  private static final int TURNS = 5;
  /** From this bit on the number of a container has its attempt, if a later one keeps it. */
  static final int KEPT_SHIFT = 56;
  /** Which values of a row say what happened, when, and with which status. */
  private static final int EVENT = 4;
  private static final int TIME = 5;
  private static final int EXIT_STATUS = 7;

  private final Set<ContainerId> treadles = new HashSet<>();
  private final NodeSection nodes;

  ContainerSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  /** Forgets which containers that have ended Treadle placed: their last steps may have been lost. */
  void forgetEnded(Draft draft) {
    treadles.removeIf(id -> draft.scheduler.getRMContainer(id) == null);
  }

  /** Writes a step; {@code attempt} is the current attempt of the container's application, null if there is none. */
  void write(Draft draft, ContainerStep step, ApplicationSection.Row attempt) {
    ContainerId id = step.container;
    if ((step.kind == ContainerStep.LAUNCHED || step.kind == ContainerStep.COMPLETED) && attempt != null
        && writeAgain(draft, attempt, id, step.kind, step.timeMs, step.exitStatus)) {
      return;
    }
    boolean its = attempt != null && (isOf(id, attempt) || attempt.app.getRMContainer(id) != null
        || attempt.containersAlive.containsKey(id));
    boolean ours = step.kind == ContainerStep.ALLOCATED ? step.byTreadle : treadles.contains(id);
    long[] values = draft.section(Section.CONTAINERS).add(number(id, its ? attempt : null))
        .add(its ? attempt.index : -1).add(step.requestKey == null ? 0 : step.requestKey.getPriority().getPriority())
        .add(nodes.index(step)).add(step.kind).add(step.timeMs).add(step.createdMs).add(step.exitStatus)
        .flag(ours).flag(step.am).amounts(step.capability).end();
    if (step.kind == ContainerStep.COMPLETED) {
      treadles.remove(id);
    } else if (its) {
      attempt.containersAlive.put(id, values);
      if (ours) {
        treadles.add(id);
      }
    }
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

  /** Compares the steps sent of an attempt's containers with the scheduler's, and writes the lost ones. */
  void review(Draft draft, ApplicationSection.Row row) {
    if (row.differing.isEmpty() && row.turn++ % TURNS != 0) {
      return;
    }
    Map<ContainerId, RMContainer> live = row.app.getLiveContainersMap();
    Set<ContainerId> differing = new HashSet<>();
    if (live.size() != row.containersAlive.size() || !row.differing.isEmpty()) {
      row.containersAlive.keySet().stream().filter(id -> !live.containsKey(id)).forEach(differing::add);
      live.values().stream().filter(ContainerStep::isReported).map(RMContainer::getContainerId)
          .filter(id -> !row.containersAlive.containsKey(id)).forEach(differing::add);
    }
    if (row.differing.isEmpty()) {
      row.differingMs = draft.monotonicMs;
      row.differing = differing;
    } else if (draft.monotonicMs - row.differingMs >= UNSEEN_MS) {
      differing.retainAll(row.differing);
      row.differing = Collections.emptySet();
      for (ContainerId id : differing) {
        if (!writeAgain(draft, row, id, ContainerStep.COMPLETED, draft.rmTimeMs, ContainerExitStatus.INVALID)) {
          write(draft, step(live.get(id)), row);
        }
      }
    }
  }

  /** Writes the last row of a container again, for another step; answers whether there is one. */
  private boolean writeAgain(Draft draft, ApplicationSection.Row row, ContainerId id, int kind, long timeMs, int exit) {
    long[] sent = row.containersAlive.get(id);
    if (sent != null) {
      long[] again = sent.clone(); // the row may be in this frame, and stays as it is
      again[EVENT] = kind;
      again[TIME] = timeMs;
      again[EXIT_STATUS] = exit;
      draft.section(Section.CONTAINERS).write(again);
      if (kind == ContainerStep.COMPLETED) {
        row.containersAlive.remove(id);
        treadles.remove(id);
      }
    }
    return sent != null;
  }

  /** Writes the containers of a new row that are alive: in a snapshot all, else those of earlier attempts. */
  void writeLive(Draft draft, ApplicationSection.Row row) {
    row.app.getLiveContainersMap().values().stream().filter(ContainerStep::isReported)
        .filter(container -> draft.snapshot || !isOf(container.getContainerId(), row))
        .forEach(container -> write(draft, step(container), row));
  }

  /** The last step of a container. */
  private ContainerStep step(RMContainer container) {
    return new ContainerStep(container.getState() == RMContainerState.RUNNING ? ContainerStep.LAUNCHED
        : ContainerStep.ALLOCATED, container, container.getCreationTime(), 0,
        treadles.contains(container.getContainerId()), container.isAMContainer());
  }
}

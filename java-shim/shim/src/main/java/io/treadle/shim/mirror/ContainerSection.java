package io.treadle.shim.mirror;

import io.treadle.shim.journal.ContainerStep;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Writes container events; in a snapshot the last step of each container alive. Remembers which ones
 * Treadle placed, as long as they and their application live, and which are alive as far as was sent.
 *
 * <p>A step may never come: then a container would run for ever in the engine's eyes. So what was sent of a node is
 * compared in turns with what the scheduler has there. What was missing twice, {@value #MISSING_MS} ms apart, has
 * ended unseen; its step could not take that long.
 */
final class ContainerSection {
  static final long MISSING_MS = 1000;
  /** From this bit on the number of a container has its attempt, if a later one keeps it. */
  static final int KEPT_SHIFT = 56;

  private final Map<ApplicationId, Set<ContainerId>> treadles = new HashMap<>();
  private final Map<NodeId, Sent> sent = new HashMap<>();
  private final List<Sent> sentInOrder = new ArrayList<>();
  private final Sweep sweep = new Sweep(MISSING_MS);
  private final NodeSection nodes;
  private final Slots slots = new Slots();
  /** Containers that are not alive any more, with a narrow row in this frame; of the others it is in {@link Alive}. */
  private final Set<ContainerId> narrowEnds = new HashSet<>();
  /** Counts frames. */
  private long frame;
  private final Map<ContainerId, List<ContainerStep>> later = new LinkedHashMap<>();

  ContainerSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  /** A container whose last full row was sent, and that has not ended. */
  private static final class Alive {
    private final ContainerStep step;
    private final int slot;
    private final boolean byTreadle;
    private final int application;
    private final int node;
    /** The last frame that has a narrow row of it. */
    private long narrowIn = -1;

    Alive(ContainerStep step, int slot, boolean byTreadle, int application, int node) {
      this.step = step;
      this.slot = slot;
      this.byTreadle = byTreadle;
      this.application = application;
      this.node = node;
    }

    /** Whether a step differs from the full row in nothing but what a narrow row has. */
    boolean coversRestOf(ContainerStep later, boolean ours, int application, int node) {
      return ours == byTreadle && application == this.application && node == this.node && later.am == step.am && later.createdMs == step.createdMs
          && priority(later) == priority(step)
          && (later.capability == step.capability || Objects.equals(later.capability, step.capability));
    }
  }

  /** What was sent of a node's containers. */
  private static final class Sent {
    private final NodeId node;
    private final Map<ContainerId, Alive> alive = new HashMap<>();
    /** Those that the scheduler did not have on the node when it was looked at, and when that was. */
    private Set<ContainerId> missing = Collections.emptySet();
    private long missingMs;

    Sent(NodeId node) {
      this.node = node;
    }
  }

  /** Forgets what was sent, but not who placed it. */
  void reset() {
    sent.clear();
    sentInOrder.clear();
    slots.reset();
    frame++;
    narrowEnds.clear();
    later.clear();
  }

  /** Begins a frame of changes; returns steps that had to wait for it, to be written first. */
  List<ContainerStep> begin() {
    slots.begin();
    frame++;
    narrowEnds.clear();
    List<ContainerStep> waited = new ArrayList<>();
    later.values().forEach(waited::addAll);
    later.clear();
    return waited;
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
    Alive before = alive(step);
    boolean its = attempt != null && (isOf(step.container, attempt) || isKept(step.container, attempt, before));
    write(draft, step, its ? attempt : null, before);
  }

  /** What was sent of the container of a step if it is alive, else null. */
  private Alive alive(ContainerStep step) {
    Sent of = sent.get(step.node);
    return of == null ? null : of.alive.get(step.container);
  }

  private void write(Draft draft, ContainerStep step, ApplicationSection.Row row, Alive before) {
    ContainerId id = step.container;
    // of one that is alive it was found out before: looking a container up costs more than writing its row
    boolean ours = step.kind == ContainerStep.Kind.ALLOCATED ? step.byTreadle
        : before != null && row != null ? before.byTreadle : isTreadles(id);
    int application = row == null ? -1 : row.index;
    int node = nodes.index(step.node);
    boolean narrow = before != null && row != null && isNarrow(draft, step)
        && before.coversRestOf(step, ours, application, node);
    if (!later.isEmpty() && later.containsKey(id) || !narrow && isNarrowed(id, before)) {
      later.computeIfAbsent(id, key -> new ArrayList<>()).add(step);
      return;
    }
    int slot = before == null ? slots.take() : before.slot;
    if (narrow) {
      before.narrowIn = frame;
      draft.section(Section.CONTAINER_STEPS).i32(slot).u8(step.kind.code()).i32((int) age(draft, step))
          .i32(step.exitStatus).end();
      if (step.kind == ContainerStep.Kind.COMPLETED) {
        narrowEnds.add(id);
      }
    } else {
      draft.section(Section.CONTAINERS).i64(number(id, row)).i32(application).i32(priority(step))
          .i32(node).u8(step.kind.code()).i64(step.timeMs).i64(step.createdMs)
          .i32(step.exitStatus).flag(ours).flag(step.am).amounts(step.capability).i32(slot).end();
    }
    if (!narrow || step.kind == ContainerStep.Kind.COMPLETED) {
      remember(step, narrow ? before : new Alive(step, slot, ours, application, node), row != null);
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

  /** Whether an attempt took a container over from an earlier one; of one that has just ended what was sent shows that. */
  private static boolean isKept(ContainerId container, ApplicationSection.Row attempt, Alive before) {
    return before != null && before.application == attempt.index || attempt.app.getRMContainer(container) != null;
  }

  /**
   * Whether this frame has a narrow row of a container: full rows are read before those, so that one has to wait for the
   * next. {@code before} is what was sent of it if it is alive.
   */
  private boolean isNarrowed(ContainerId id, Alive before) {
    return before != null && before.narrowIn == frame || !narrowEnds.isEmpty() && narrowEnds.contains(id);
  }

  /** A step after which the container may come back has a full row: nothing of it may be read later than that. */
  private static boolean isNarrow(Draft draft, ContainerStep step) {
    return age(draft, step) == (int) age(draft, step) && isLast(step);
  }

  private static boolean isLast(ContainerStep step) {
    return step.kind == ContainerStep.Kind.LAUNCHED
        || step.kind == ContainerStep.Kind.COMPLETED && step.exitStatus != ContainerExitStatus.INVALID;
  }

  private static int priority(ContainerStep step) {
    return step.requestKey == null ? 0 : step.requestKey.getPriority().getPriority();
  }

  private static long age(Draft draft, ContainerStep step) {
    return draft.rmTimeMs - step.timeMs;
  }

  private void remember(ContainerStep step, Alive now, boolean hasApplication) {
    ApplicationId application = step.container.getApplicationAttemptId().getApplicationId();
    Sent of = sent.get(step.node);
    if (step.kind == ContainerStep.Kind.COMPLETED) {
      treadles.getOrDefault(application, Collections.emptySet()).remove(step.container);
      if (of != null) {
        of.alive.remove(step.container);
      }
      slots.giveBack(now.slot);
      return;
    }
    if (step.kind == ContainerStep.Kind.ALLOCATED && now.byTreadle && hasApplication) {
      treadles.computeIfAbsent(application, key -> new HashSet<>()).add(step.container);
    }
    if (of == null) {
      of = new Sent(step.node);
      sent.put(step.node, of);
      sentInOrder.add(of);
    }
    of.alive.put(step.container, now);
  }

  /** Looks at the nodes that are due and returns the ends of containers that ended unseen, to be written. */
  List<ContainerStep> unseenEnds(Draft draft) {
    List<ContainerStep> ends = new ArrayList<>();
    int size = sentInOrder.size();
    for (int left = sweep.due(size, draft.monotonicMs); left > 0; left--) {
      review(draft, sentInOrder.get(sweep.next(size)), ends);
    }
    if (nodes.present() < size / 2) {
      sentInOrder.removeIf(of -> of.alive.isEmpty() && nodes.index(of.node) < 0 && sent.remove(of.node, of));
    }
    return ends;
  }

  private static void review(Draft draft, Sent of, List<ContainerStep> ends) {
    if (of.alive.isEmpty()) {
      // first: most nodes of a cluster that is not full, and a node is looked up under a lock that heartbeats take too
      of.missing = Collections.emptySet();
      return;
    }
    FiCaSchedulerNode node = draft.scheduler.getNode(of.node);
    if (node != null && of.alive.size() <= node.getNumContainers() && of.missing.isEmpty()) {
      return;
    }
    Set<ContainerId> missing = new HashSet<>(of.alive.keySet());
    if (node != null) {
      for (RMContainer container : node.getCopiedListOfRunningContainers()) {
        if (ContainerStep.isReported(container)) {
          missing.remove(container.getContainerId());
        }
      }
    }
    long nowMs = draft.monotonicMs;
    if (of.missing.isEmpty()) {
      of.missingMs = nowMs;
      of.missing = missing;
    } else if (nowMs - of.missingMs >= MISSING_MS) {
      missing.stream().filter(of.missing::contains)
          .forEach(container -> ends.add(of.alive.get(container).step.lost(draft.rmTimeMs)));
      of.missing = Collections.emptySet();
    }
  }

  private boolean isTreadles(ContainerId id) {
    return treadles.getOrDefault(id.getApplicationAttemptId().getApplicationId(), Collections.emptySet()).contains(id);
  }

  /** Writes the containers of an attempt that are alive: all, or those that it took over from earlier attempts. */
  void writeLive(Draft draft, ApplicationSection.Row row, boolean all) {
    Set<ContainerId> ours = treadles.getOrDefault(row.app.getApplicationId(), Collections.emptySet());
    // the steps in which others ended may have been lost with an overflow, or while there was no engine
    ours.removeIf(container -> !row.app.getLiveContainersMap().containsKey(container));
    for (RMContainer container : row.app.getLiveContainersMap().values()) {
      if (!ContainerStep.isReported(container) || !all && isOf(container.getContainerId(), row)) {
        continue;
      }
      boolean running = container.getState() == RMContainerState.RUNNING;
      boolean byTreadle = ours.contains(container.getContainerId());
      ContainerStep step = running ? ContainerStep.launched(container, container.getCreationTime())
          : ContainerStep.allocated(container, byTreadle, container.isAMContainer());
      write(draft, step, row, alive(step));
    }
  }
}

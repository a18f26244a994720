// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.journal;

import java.util.Objects;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** One step in the life of a container, as the RM saw it. Immutable but for the resource, which nobody changes. */
public final class ContainerStep {
  /** Kinds of steps; {@link #code()} is the number on the wire. */
  public enum Kind {
    /** The scheduler gave it to an application. */
    ALLOCATED(1),
    /** Its NodeManager reported it as started. */
    LAUNCHED(2),
    /** It ended, in whatever way. */
    COMPLETED(3),
    /** Its resource was changed while it runs. */
    RESIZED(4);

    private final int code;

    Kind(int code) {
      this.code = code;
    }

    /** The number on the wire. */
    public int code() {
      return code;
    }
  }

  /** What happened. */
  public final Kind kind;
  /** To which container. */
  public final ContainerId container;
  /** On which node. */
  public final NodeId node;
  /** The request key that it was asked for with. */
  public final SchedulerRequestKey requestKey;
  /** What it holds of the node. */
  public final Resource capability;
  /** When, milliseconds since 1970. */
  public final long timeMs;
  /** When it was allocated, milliseconds since 1970. */
  public final long createdMs;
  /** YARN's exit status; 0 unless completed. */
  public final int exitStatus;
  /** Whether Treadle's committer placed it; known of allocations only, the mirror remembers it for later steps. */
  public final boolean byTreadle;
  /** Whether it is an ApplicationMaster's. */
  public final boolean am;

  private ContainerStep(Kind kind, RMContainer container, long timeMs, int exitStatus, boolean byTreadle, boolean am) {
    this.kind = Objects.requireNonNull(kind);
    this.container = Objects.requireNonNull(container.getContainerId());
    this.node = Objects.requireNonNull(container.getNodeId());
    this.requestKey = container.getAllocatedSchedulerKey();
    this.capability = container.getAllocatedResource();
    this.createdMs = container.getCreationTime();
    this.am = am;
    this.timeMs = timeMs;
    this.exitStatus = exitStatus;
    this.byTreadle = byTreadle;
  }

  private ContainerStep(ContainerStep before, long timeMs) {
    this.kind = Kind.COMPLETED;
    this.container = before.container;
    this.node = before.node;
    this.requestKey = before.requestKey;
    this.capability = before.capability;
    this.createdMs = before.createdMs;
    this.am = before.am;
    this.timeMs = timeMs;
    this.exitStatus = ContainerExitStatus.INVALID;
    this.byTreadle = false;
  }

  /**
   * Whether a container's events are sent: those of a guaranteed one, which holds a part of its node. Opportunistic
   * containers wait and run beside the scheduler and it does not learn of their ends here; and the stand-in for an
   * update of another container until the AM has heard of it never runs.
   */
  public static boolean isReported(RMContainer container) {
    SchedulerRequestKey key = container.getAllocatedSchedulerKey();
    return container.getExecutionType() == ExecutionType.GUARANTEED
        && (key == null || key.getContainerToUpdate() == null);
  }

  /**
   * A container was allocated.
   *
   * @param byTreadle by Treadle's committer, not by the stock scheduler
   * @param am for an ApplicationMaster; the container itself is marked so only later
   */
  public static ContainerStep allocated(RMContainer container, boolean byTreadle, boolean am) {
    return new ContainerStep(Kind.ALLOCATED, container, container.getCreationTime(), 0, byTreadle, am);
  }

  /** A container started; {@code timeMs} is the RM's clock in milliseconds since 1970. */
  public static ContainerStep launched(RMContainer container, long timeMs) {
    return new ContainerStep(Kind.LAUNCHED, container, timeMs, 0, false, container.isAMContainer());
  }

  /** A container ended with an exit status of YARN's; {@code timeMs} is the RM's clock in milliseconds since 1970. */
  public static ContainerStep completed(RMContainer container, long timeMs, int exitStatus) {
    return new ContainerStep(Kind.COMPLETED, container, timeMs, exitStatus, false, container.isAMContainer());
  }

  /**
   * A container holds nothing of its node any more although it may run on: it was demoted, or has ended unseen. {@code
   * timeMs} is the RM's clock in milliseconds since 1970.
   */
  public static ContainerStep lost(RMContainer container, long timeMs) {
    return completed(container, timeMs, ContainerExitStatus.INVALID);
  }

  /** The same of the container of an earlier step. */
  public ContainerStep lost(long nowMs) {
    return new ContainerStep(this, nowMs);
  }

  /** A container has another resource now; {@code timeMs} is the RM's clock in milliseconds since 1970. */
  public static ContainerStep resized(RMContainer container, long timeMs) {
    return new ContainerStep(Kind.RESIZED, container, timeMs, 0, false, container.isAMContainer());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.util.Objects;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** One step in the life of a container, as the RM saw it. Nothing but {@link #place} is ever changed. */
final class ContainerStep {
  /** The scheduler gave it to an application. */
  static final int ALLOCATED = 1;
  /** Its NodeManager reported it as started. */
  static final int LAUNCHED = 2;
  /** It ended, in whatever way. */
  static final int COMPLETED = 3;
  /** Its resource was changed while it runs. */
  static final int RESIZED = 4;

  /** What happened: one of the above, as on the wire. */
  final int kind;
  /** To which container. */
  final ContainerId container;
  /** On which node. */
  final NodeId node;
  /** The mirror's row of that node, once it has looked for it. */
  NodeSection.Row place;
  /** The request key that it was asked for with. */
  final SchedulerRequestKey requestKey;
  /** Its resources on the node. */
  final Resource capability;
  /** When, milliseconds since 1970. */
  final long timeMs;
  /** When it was allocated, milliseconds since 1970. */
  final long createdMs;
  /** YARN's exit status; 0 unless completed. */
  final int exitStatus;
  /** Whether Treadle's committer placed it; known of allocations only, the mirror remembers it for later steps. */
  final boolean byTreadle;
  /** Whether it is an ApplicationMaster's. */
  final boolean am;

  /** A step: see the fields. Whether it is a master's is known of the container only after its allocation. */
  ContainerStep(int kind, RMContainer container, long timeMs, int exitStatus, boolean byTreadle, boolean am) {
    this.kind = kind;
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

  /**
   * Whether a container's events are sent: those of a guaranteed one, which holds a part of its node. Opportunistic
   * containers wait and run outside the scheduler, which does not learn of their ends here; and the stand-in for an
   * update of another container until the AM knows of it never runs.
   */
  static boolean isReported(RMContainer container) {
    SchedulerRequestKey key = container.getAllocatedSchedulerKey();
    return container.getExecutionType() == ExecutionType.GUARANTEED
        && (key == null || key.getContainerToUpdate() == null);
  }
}

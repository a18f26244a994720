// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.AskLocks;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.Lease;
import io.treadle.shim.link.Link;
import io.treadle.shim.link.LinkSettings;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * The engine as the shim holds it: what it gets (a mirror), whether it may schedule (a lease), what happens to its
 * answers (a pipeline), what is counted of it, and, while it runs, the link that talks to it.
 */
final class EngineHandle {
  final ShimMetrics metrics;
  final CommitPipeline pipeline;
  private final Lease lease;
  private final Mirror mirror;
  private volatile Link link;

  /** An engine without a link. */
  EngineHandle(SchedulerPort port, Journal journal, Upkeep upkeep, CommitSettings commits, AskLocks asks,
      MirrorSettings mirrors, EngineView view, LongSupplier escapes, long leaseMs) {
    lease = new Lease(System::nanoTime, leaseMs);
    mirror = new Mirror(port, journal, mirrors, view);
    metrics = new ShimMetrics(lease::held, lease::flips, mirror::snapshots, escapes);
    pipeline = new CommitPipeline(port, metrics, upkeep, commits, asks, view);
    metrics.gauge("Stalled", () -> pipeline.starving() ? 1 : 0);
    journal.onMark(this::signal);
  }

  /** Whether it holds its lease, its last answer was one to commit, and it is not suspended. Two looks at a clock. */
  boolean schedules() {
    return lease.schedules() && !pipeline.starving();
  }

  /** Whether it has a link, which {@link #stop} ends. */
  boolean linked() {
    return link != null;
  }

  void start(String thread, EngineSource source, BooleanSupplier mayCommit, LinkSettings settings) {
    link = new Link(thread, mirror, lease, source, pipeline, metrics, mayCommit, settings);
    link.start();
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  private void signal() {
    Link current = link;
    if (current != null) {
      current.signal();
    }
  }

  /** Takes other settings; a link that runs hangs up in mode {@code off}. */
  void settings(LinkSettings settings) {
    lease.duration(settings.config.leaseMs);
    Link current = link;
    if (current != null) {
      current.settings(settings);
    }
  }

  /** Ends the link and the sidecar, and waits for that a few seconds at most. */
  void stop() {
    lease.release();
    Link current = link;
    link = null;
    if (current != null) {
      current.stop();
    }
  }
}

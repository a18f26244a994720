package io.treadle.shim;

import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.Lease;
import io.treadle.shim.link.Link;
import io.treadle.shim.link.LinkSettings;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Mirror;
import java.util.function.BooleanSupplier;

/**
 * One engine as the shim holds it: what it is told (a mirror), whether it may schedule (a lease), what becomes of its
 * answers (a pipeline), what is counted of it, and, while it runs, the link that talks to it.
 */
final class EngineHandle {
  final Lease lease;
  final Mirror mirror;
  final ShimMetrics metrics;
  final CommitPipeline pipeline;
  private volatile Link link;

  EngineHandle(Lease lease, Mirror mirror, ShimMetrics metrics, CommitPipeline pipeline) {
    this.lease = lease;
    this.mirror = mirror;
    this.metrics = metrics;
    this.pipeline = pipeline;
    metrics.gauge("Starving", () -> pipeline.guard().suspended() ? 1 : 0);
    metrics.gauge("IdleRounds", () -> pipeline.guard().rounds());
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
  void signal() {
    Link current = link;
    if (current != null) {
      current.signal();
    }
  }

  void settings(LinkSettings settings) {
    link.settings(settings);
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

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Rate;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** Passes on what an engine reports of itself with its answers: to whom it concerns, the metrics and the log. */
final class StatusReports {
  private static final long EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final Mirror mirror;
  private final AnswerHandler handler;
  private final ShimMetrics metrics;
  private final StateLog states;
  /** An engine may send another status with each answer; reading one takes a while. */
  private final Rate reads;
  /** The latest status, if it has not been read. */
  private String unread = "";

  /** With a monotonic clock such as {@code System::nanoTime}. */
  StatusReports(LongSupplier nanoClock, Mirror mirror, AnswerHandler handler, ShimMetrics metrics, StateLog states) {
    this.reads = new Rate(nanoClock, 1, EVERY_NANOS);
    this.mirror = mirror;
    this.handler = handler;
    this.metrics = metrics;
    this.states = states;
  }

  /**
   * Takes the status of an answer; an empty one says what the last one said. Where two come within 100 ms, the later is
   * read with an answer after that.
   */
  void take(ProposalFrame answer) throws IOException {
    if (!answer.status().isEmpty()) {
      unread = answer.status();
    }
    if (unread.isEmpty() || !reads.take()) {
      return;
    }
    EngineStatus status = new EngineStatus(unread);
    unread = "";
    metrics.show(ShimMetrics.Text.LEARNED, status.learned);
    mirror.keysFor(status.keysFor);
    handler.status(status, mirror);
    metrics.show(ShimMetrics.Text.ENGINES, status.engines);
    // after that, so that nobody who sees the policy's name sees Schedules of an earlier policy
    metrics.show(ShimMetrics.Text.POLICY, status.policy);
    states.policy(status.policy);
    metrics.show(ShimMetrics.Text.WAITS_FOR, status.waitsFor);
    metrics.troubles().note(Troubles.Kind.ENGINE, status.error);
    states.text(status.error);
    metrics.show(ShimMetrics.Text.WARNINGS, String.join("; ", status.warnings));
    status.warnings.forEach(states::text);
  }

  /** The conversation is over: the next engine holds back, warns and is several only if it says so itself. */
  void hungUp() {
    unread = "";
    metrics.show(ShimMetrics.Text.WAITS_FOR, null);
    metrics.show(ShimMetrics.Text.WARNINGS, null);
    metrics.show(ShimMetrics.Text.ENGINES, null);
  }
}

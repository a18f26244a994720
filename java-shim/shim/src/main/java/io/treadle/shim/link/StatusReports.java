package io.treadle.shim.link;

import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Passes on what an engine reports of itself with its answers: to whom it concerns, the metrics and the log. */
final class StatusReports {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  /** The most texts of an engine that are logged between two refreshes. */
  private static final int TEXTS_REPORTED = 100;

  private final Mirror mirror;
  private final AnswerHandler handler;
  private final ShimMetrics metrics;
  private final StateLog states;
  /** What was logged since the last refresh. */
  private final Set<String> reported = new HashSet<>();

  StatusReports(Mirror mirror, AnswerHandler handler, ShimMetrics metrics, StateLog states) {
    this.mirror = mirror;
    this.handler = handler;
    this.metrics = metrics;
    this.states = states;
  }

  /** Logs anew what is reported from now on. */
  void refreshed() {
    reported.clear();
  }

  /** Takes the status of an answer; an empty one says what the last one said. */
  void take(ProposalFrame answer) throws IOException {
    if (answer.status().isEmpty()) {
      handler.engines(null);
      return;
    }
    EngineStatus status = EngineStatus.parse(answer.status());
    metrics.show(ShimMetrics.Text.LEARNED, status.learned);
    mirror.keysFor(status.keysFor);
    handler.overrides(status.overridesGuarantees, status.overridesOrder);
    handler.engines(status.engines);
    handler.diagnostics(status.diagnostics, mirror);
    handler.givenUp(status.givenUp, mirror);
    metrics.figures(status.figures);
    // after that, so that nobody who sees the policy's name sees Schedules of an earlier policy
    metrics.show(ShimMetrics.Text.POLICY, status.policy);
    states.policy(status.policy);
    waitsFor(status.waitsFor);
    metrics.troubles().note(Troubles.Kind.ENGINE, status.error);
    if (!status.error.isEmpty() && isNews(status.error)) {
      LOG.error("{}: {}", states.engine(), status.error);
    }
    metrics.show(ShimMetrics.Text.WARNINGS, String.join("; ", status.warnings));
    status.warnings.stream().filter(this::isNews)
        .forEach(warning -> LOG.warn("{}: {}", states.engine(), warning));
  }

  /** For what the engine holds asks back; empty for nothing. */
  void waitsFor(String what) {
    handler.waitsFor(what);
    metrics.show(ShimMetrics.Text.WAITS_FOR, what);
  }

  /** An engine may say the same, or something new, in every answer: neither may fill the RM's log. */
  private boolean isNews(String text) {
    return reported.size() < TEXTS_REPORTED && reported.add(text);
  }
}

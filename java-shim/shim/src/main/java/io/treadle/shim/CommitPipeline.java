// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.AskLocks;
import io.treadle.shim.commit.CommitListener;
import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.CommitTime;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.commit.Observer;
import io.treadle.shim.commit.StarvationGuard;
import io.treadle.shim.link.AnswerHandler;
import io.treadle.shim.link.EngineStatus;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;

/**
 * Handles the engine's answers: commits or the findings of {@code observe_only}, the guard against starvation, and
 * reports of the outcome. Runs on the engine's link thread, except where a method says otherwise.
 */
final class CommitPipeline implements AnswerHandler {
  private final ShimMetrics metrics;
  private final Upkeep upkeep;
  private final Committer committer;
  private final Observer observer;
  private final StarvationGuard guard;
  private final SchedulerPort port;
  private final AttemptDiagnostics diagnostics = new AttemptDiagnostics();
  /** What an exception in a commit said last. */
  private String commitError = "";

  CommitPipeline(SchedulerPort port, ShimMetrics metrics, Upkeep upkeep, CommitSettings settings, AskLocks asks,
      EngineView view) {
    this.port = port;
    this.metrics = metrics;
    this.upkeep = upkeep;
    this.committer = new Committer(port, settings, new CommitListener() {
      @Override
      public void internalError(Throwable error) {
        commitError = error.toString();
      }

      @Override
      public void transactionTakenBack() {
        metrics.add(ShimMetrics.Counter.TRANSACTIONS_TAKEN_BACK, 1);
      }
    }, asks, view);
    this.guard = new StarvationGuard(port, settings, view, committer,
        () -> metrics.add(ShimMetrics.Counter.PLACED_FOR_NEGLECTED, 1));
    this.observer = upkeep.observer();
  }

  /** Who bounds how long a request waits beside idle room. */
  StarvationGuard guard() {
    return guard;
  }

  @Override
  public String refusal() {
    String refusal = upkeep.refusal();
    String suspension = guard.suspension();
    return refusal == null ? suspension : refusal;
  }

  @Override
  public boolean starving() {
    return guard.suspension() != null;
  }

  @Override
  public void status(EngineStatus status, Directory directory) {
    upkeep.overrides(status.overridesGuarantees, status.overridesOrder);
    Map<ApplicationAttemptId, String> attempts = new HashMap<>();
    status.diagnostics.forEach((index, text) -> {
      ApplicationAttemptId attempt = directory.applicationOrNull(index);
      if (attempt != null) {
        attempts.put(attempt, AttemptDiagnostics.SPEAKER + text);
      }
    });
    diagnostics.show(port.rmContext(), attempts);
  }

  @Override
  public boolean ready() {
    return committer.isReady();
  }

  @Override
  public void entered() {
    upkeep.entered();
  }

  @Override
  public String commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      CommitTime time) {
    upkeep.beforeCommit(mayCommit);
    CommitResult result = committer.commit(answer, directory, limit, mayCommit, time);
    report(answer, result, directory);
    metrics.decided(answer.decideMicros(), result.size(), result.count(Fate.COMMITTED));
    guard.answered(answer, directory, result.count(Fate.COMMITTED), mayCommit, time);
    return result.size() > 0 && result.count(Fate.INTERNAL_ERROR) == result.size() ? commitError : null;
  }

  @Override
  public void observe(ProposalFrame answer, Directory directory, int limit) {
    upkeep.observes();
    CommitResult result = committer.judge(answer, directory, limit);
    observer.judged(answer, result, directory);
    report(answer, result, directory);
  }

  private void report(ProposalFrame answer, CommitResult result, Directory directory) {
    long sequence = answer.sequence();
    for (int position = 0; position < result.size(); position++) {
      metrics.fate(result.fate(position));
      directory.fate(sequence, position, result.fate(position));
    }
  }
}

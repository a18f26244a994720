// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.AskLocks;
import io.treadle.shim.commit.CommitListener;
import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.CommitTime;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.commit.Observer;
import io.treadle.shim.commit.PlaceableAsks;
import io.treadle.shim.guard.IdleGuard;
import io.treadle.shim.link.AnswerHandler;
import io.treadle.shim.link.EngineStatus;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;

/**
 * Handles the engine's answers: commits or the findings of {@code observe_only}, the idle guard, and reports of
 * the outcome. Runs on the engine's link thread, except where a method says otherwise.
 */
final class CommitPipeline implements AnswerHandler {
  private final ShimMetrics metrics;
  private final Upkeep upkeep;
  private final Committer committer;
  private final Observer observer;
  private final IdleGuard guard;
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
    this.guard = new IdleGuard(port, new PlaceableAsks(port, settings, view), Time::monotonicNow);
    this.observer = upkeep.observer();
  }

  /** Who keeps an engine that places nothing from starving the cluster. */
  IdleGuard guard() {
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
    return guard.suspended();
  }

  @Override
  public void hungUp() {
    guard.waitsFor("");
  }

  @Override
  public void status(EngineStatus status, Directory directory) {
    upkeep.overrides(status.overridesGuarantees, status.overridesOrder);
    guard.waitsFor(status.waitsFor);
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
    guard.entered();
  }

  @Override
  public String commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      CommitTime time) {
    upkeep.beforeCommit(mayCommit);
    CommitResult result = committer.commit(answer, directory, limit, mayCommit, time);
    report(answer, result, directory);
    metrics.decided(answer.decideMicros(), result.size(), result.count(Fate.COMMITTED));
    if (answer.again() && answer.size() == 0) {
      guard.held();
    }
    if (guard.answered(result.count(Fate.COMMITTED))) {
      entered();
    }
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

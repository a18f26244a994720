package io.treadle.shim;

import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.link.DecisionStage;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;

/** What one scheduler's shim does with answers: commits them, or observes. */
final class Stage implements DecisionStage {
  private final SchedulerPort port;
  private final Journal journal;
  private final ShimMetrics metrics;

  Stage(SchedulerPort port, Journal journal, ShimMetrics metrics, ShimConfig config, long nodeStaleMs) {
    this.port = port;
    this.journal = journal;
    this.metrics = metrics;
  }

  static boolean isCommitting() {
    return false;
  }

  boolean mayEnforce() {
    return false;
  }

  void refreshed() {
  }

  Allocation lowerHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return allocation;
  }

  String observation() {
    return "{}";
  }

  @Override
  public String refusal() {
    return "commits are being written";
  }

  @Override
  public boolean ready() {
    RMContext context = port.rmContext();
    return !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
  }

  @Override
  public void entered() {
  }

  @Override
  public void commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit) {
    observe(answer, directory, limit);
  }

  @Override
  public void observe(ProposalFrame answer, Directory directory, int limit) {
    for (int i = 0; i < answer.size(); i++) {
      metrics.fate(Fate.OBSERVED);
      journal.fate(answer.sequence(), i, Fate.OBSERVED, null);
    }
  }
}

package io.treadle.shim;

import io.treadle.shim.commit.CommitListener;
import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.commit.Reservations;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.link.DecisionStage;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;

/** What one scheduler's shim does with answers: the parts of {@code commit}, in their order, and who is told what came of it. */
final class Stage implements DecisionStage {
  /** How often nodes are searched for reservations, milliseconds: asynchronous scheduling may still make one after the switch. */
  private static final long RESERVATIONS_EVERY_MS = 1000;
  private static final int UPDATES_PER_TICK = 64;

  private final SchedulerPort port;
  private final Journal journal;
  private final ShimMetrics metrics;
  private final Committer committer;
  private final Reservations reservations;
  private long reservationsSoughtMs;
  private volatile String refusal;

  Stage(SchedulerPort port, Journal journal, ShimMetrics metrics, ShimConfig config, long nodeStaleMs) {
    this.port = port;
    this.journal = journal;
    this.metrics = metrics;
    CommitSettings settings = new CommitSettings(config.batchSize(), nodeStaleMs, UPDATES_PER_TICK, Time::monotonicNow);
    this.committer = new Committer(port, settings, CommitListener.NONE);
    this.reservations = new Reservations(port, CommitListener.NONE);
  }

  /** Whether this thread is committing for Treadle now. */
  static boolean isCommitting() {
    return Committer.isCommitting();
  }

  /** Whether no rule was found broken when they were last looked at. */
  boolean mayEnforce() {
    return refusal == null;
  }

  /** The administrator refreshed the configuration. */
  void refreshed() {
  }

  /** An answer to an AM with the headroom that it really has; on the AM's thread. */
  Allocation lowerHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return allocation;
  }

  /** What {@code observe_only} found, a JSON object. */
  String observation() {
    return "{}";
  }

  @Override
  public String refusal() {
    return refusal;
  }

  @Override
  public boolean ready() {
    RMContext context = port.rmContext();
    return !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
  }

  @Override
  public void entered() {
    releaseReservations();
  }

  private void releaseReservations() {
    reservationsSoughtMs = Time.monotonicNow();
    reservations.releaseAll();
  }

  @Override
  public void commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit) {
    if (Time.monotonicNow() - reservationsSoughtMs >= RESERVATIONS_EVERY_MS) {
      releaseReservations();
    }
    tell(answer, committer.commit(answer, directory, limit, mayCommit));
  }

  @Override
  public void observe(ProposalFrame answer, Directory directory, int limit) {
    tell(answer, committer.judge(answer, directory, limit));
  }

  private void tell(ProposalFrame answer, CommitResult result) {
    long sequence = answer.sequence();
    for (int position = 0; position < result.size(); position++) {
      metrics.fate(result.fate(position));
      journal.fate(sequence, position, result.fate(position), result.container(position));
    }
  }
}

package io.treadle.shim;

import io.treadle.shim.commit.CommitListener;
import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.commit.ContainerUpdates;
import io.treadle.shim.commit.FeatureRules;
import io.treadle.shim.commit.Headroom;
import io.treadle.shim.commit.LeafLimits;
import io.treadle.shim.commit.Observer;
import io.treadle.shim.commit.PlaceableAsks;
import io.treadle.shim.commit.Reservations;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.guard.IdleGuard;
import io.treadle.shim.link.AnswerHandler;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * What one scheduler's shim does with answers: the parts of {@code commit}, in their order, and who is told what came
 * of it. The link thread's, but for the methods that say otherwise.
 */
final class CommitPipeline implements AnswerHandler {
  /** How often nodes are searched for reservations: asynchronous scheduling may still make one after the switch. */
  private static final long RESERVATIONS_EVERY_MS = 1000;
  /** How often the rules for features are looked at. */
  private static final long RULES_EVERY_MS = 1000;
  private static final int UPDATES_PER_TICK = 64;

  private final SchedulerPort port;
  private final ShimMetrics metrics;
  private final Committer committer;
  private final ContainerUpdates updates;
  private final Reservations reservations;
  private final LeafLimits limits;
  private final Headroom headroom;
  private final FeatureRules rules;
  private final Observer observer;
  private final IdleGuard guard;
  /** What an exception in a commit said last. */
  private String commitError = "";
  private long reservationsSoughtMs;
  private long rulesReadMs;
  private boolean overridesGuarantees;
  private boolean overridesOrder;
  private volatile boolean refreshed = true;
  private volatile String refusal;

  CommitPipeline(SchedulerPort port, ShimMetrics metrics, ShimConfig config, long nodeStaleMs) {
    this.port = port;
    this.metrics = metrics;
    CommitSettings settings = new CommitSettings(config.batchSize, nodeStaleMs, UPDATES_PER_TICK, Time::monotonicNow);
    this.committer = new Committer(port, settings, new CommitListener() {
      @Override
      public void internalError(Throwable error) {
        commitError = error.toString();
      }
    });
    this.guard = new IdleGuard(port, new PlaceableAsks(port, settings), Time::monotonicNow);
    this.updates = new ContainerUpdates(port, settings, CommitListener.NONE);
    this.reservations = new Reservations(port, CommitListener.NONE);
    this.limits = new LeafLimits(port);
    this.headroom = new Headroom(port);
    this.rules = new FeatureRules(port);
    this.observer = new Observer(port, Observer.DEFAULT_WINDOW_MS, Time.monotonicNow());
  }

  /** Whether the calling thread is committing for Treadle now. */
  static boolean isCommitting() {
    return Committer.isCommitting();
  }

  /** Whether no rule for a feature was against it when they were last looked at, nor the idle guard. Any thread. */
  boolean mayEnforce() {
    return refusal == null && !guard.suspended();
  }

  /** Who keeps an engine that places nothing from starving the cluster. */
  IdleGuard guard() {
    return guard;
  }

  /** The administrator refreshed the configuration, queues included. Any thread. */
  void refreshed() {
    refreshed = true;
  }

  /** An answer to an AM with the headroom that it really has. The AM's thread. */
  Allocation tellHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return headroom.tell(allocation, attempt);
  }

  /** An AM asked for an increase or a promotion of containers. The AM's thread. */
  void updateAsked(ApplicationAttemptId attempt) {
    updates.mark(attempt);
  }

  /** The stock scheduler placed a container. Any thread. */
  void placedNatively(SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed) {
    observer.placed(placed.getSchedulerApplicationAttempt(), placed.getSchedulerRequestKey(),
        placed.getSchedulerNode().getNodeID());
  }

  /** What {@code observe_only} found. */
  Observer observer() {
    return observer;
  }

  @Override
  public String refusal() {
    long nowMs = Time.monotonicNow();
    if (refreshed || nowMs - rulesReadMs >= RULES_EVERY_MS) {
      // before the rules are read: a refresh meanwhile is looked at in the next tick
      refreshed = false;
      rulesReadMs = nowMs;
      refusal = rules.refusal(overridesGuarantees, overridesOrder);
    }
    String suspension = guard.suspension();
    return refusal == null ? suspension : refusal;
  }

  @Override
  public boolean starving() {
    return guard.suspended();
  }

  @Override
  public void waitsFor(String what) {
    guard.waitsFor(what);
  }

  @Override
  public void overrides(boolean guarantees, boolean order) {
    overridesGuarantees = guarantees;
    overridesOrder = order;
    refusal = rules.refusal(guarantees, order);
  }

  @Override
  public boolean ready() {
    return committer.isReady();
  }

  @Override
  public void entered() {
    limits.refreshNow(Time.monotonicNow());
    releaseReservations();
    updates.markAll();
    guard.entered();
  }

  private void releaseReservations() {
    reservationsSoughtMs = Time.monotonicNow();
    reservations.releaseAll();
  }

  @Override
  public String commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit) {
    long nowMs = Time.monotonicNow();
    if (nowMs - reservationsSoughtMs >= RESERVATIONS_EVERY_MS) {
      releaseReservations();
    }
    limits.refresh(nowMs);
    updates.place(mayCommit);
    CommitResult result = committer.commit(answer, directory, limit, mayCommit);
    tell(answer, result, directory);
    if (guard.answered(result.count(Fate.COMMITTED))) {
      entered();
    }
    return result.size() > 0 && result.count(Fate.INTERNAL_ERROR) == result.size() ? commitError : null;
  }

  @Override
  public void observe(ProposalFrame answer, Directory directory, int limit) {
    long nowMs = Time.monotonicNow();
    CommitResult result = committer.judge(answer, directory, limit);
    observer.judged(answer, result, directory, nowMs);
    observer.expire(nowMs);
    tell(answer, result, directory);
  }

  private void tell(ProposalFrame answer, CommitResult result, Directory directory) {
    long sequence = answer.sequence();
    for (int position = 0; position < result.size(); position++) {
      metrics.fate(result.fate(position));
      directory.fate(sequence, position, result.fate(position));
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.commit.ContainerUpdates;
import io.treadle.shim.commit.FeatureRules;
import io.treadle.shim.commit.LeafLimits;
import io.treadle.shim.commit.StarvationGuard;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;

/**
 * Handles the engine's answers: commits, or in {@code observe_only} only judges, the guard against starvation, and
 * reports of the outcome; and between two answers YARN's work other than placing: container updates, reservations,
 * limits of leaves and the rules for features. Runs on the engine's link thread, except where a method says otherwise.
 */
public class CommitPipeline {
  /** How often reservations (asynchronous scheduling may still make one), limits of leaves and rules are looked at. */
  private static final long UPKEEP_EVERY_MS = 1000;

  private final SchedulerPort port;
  private final ShimMetrics metrics;
  private final Committer committer;
  private final StarvationGuard guard;
  private final ContainerUpdates updates;
  private final AttemptDiagnostics diagnostics = new AttemptDiagnostics();
  private boolean overridesGuarantees;
  private boolean overridesOrder;
  private long keptUpMs;
  private long rulesReadMs;
  private volatile boolean refreshed = true;
  /** The rule for a feature that forbids the engine to schedule, or null. */
  private volatile String featureRefusal;

  /** A pipeline that has committed nothing; see {@link ContainerUpdates} for what is held on nodes. */
  public CommitPipeline(SchedulerPort port, ShimMetrics metrics, CommitSettings settings, Map<NodeId, Resource> held,
      Consumer<NodeId> heldChanged) {
    this.port = port;
    this.metrics = metrics;
    this.committer = new Committer(port, settings, held);
    this.guard = new StarvationGuard(port, settings, committer,
        () -> metrics.add(ShimMetrics.Counter.PLACED_FOR_NEGLECTED, 1));
    this.updates = new ContainerUpdates(port, settings, held, heldChanged);
  }

  /** The guard that bounds how long a request waits next to idle resources. */
  StarvationGuard guard() {
    return guard;
  }

  /** What an AM holds while it changes its asks and takes its containers. Any thread. */
  Lock asks(ApplicationAttemptId attempt) {
    return committer.asksOf(attempt);
  }

  /** An AM asked for an increase or a promotion of containers. The AM's thread. */
  void updateAsked(ApplicationAttemptId attempt) {
    updates.mark(attempt);
  }

  /** The administrator refreshed the configuration, queues included. Any thread. */
  void refreshed() {
    refreshed = true;
  }

  /** Whether no rule for a feature forbade the engine to schedule at the last check. Any thread. */
  boolean mayEnforce() {
    return featureRefusal == null;
  }

  /**
   * Why proposals must not be committed now although the mode is {@code enforce}, in words for an administrator that
   * name the key to change, or null.
   */
  public String refusal() {
    long nowMs = Time.monotonicNow();
    if (refreshed || nowMs - rulesReadMs >= UPKEEP_EVERY_MS) {
      // before the rules are read: a refresh meanwhile is looked at in the next tick
      refreshed = false;
      rulesReadMs = nowMs;
      readRules();
    }
    String refusal = featureRefusal;
    return refusal == null ? guard.suspension() : refusal;
  }

  private void readRules() {
    featureRefusal = FeatureRules.refusal(port.scheduler(), overridesGuarantees, overridesOrder);
  }

  /** Whether the engine has lost the lease because it places nothing, one reason for a {@link #refusal}. Any thread. */
  public boolean starving() {
    return guard.suspension() != null;
  }

  /**
   * Takes the engine's status; {@link #refusal} depends on its policy.
   *
   * @param guarantees whether it ignores the queues' capacities
   * @param order whether it ignores the queues' ordering policies
   * @param texts diagnostics of applications, by their index
   */
  public void status(boolean guarantees, boolean order, Map<Integer, String> texts, Directory directory) {
    overridesGuarantees = guarantees;
    overridesOrder = order;
    readRules();
    Map<ApplicationAttemptId, String> attempts = new HashMap<>();
    texts.forEach((index, text) -> {
      ApplicationAttemptId attempt = directory.applicationOrNull(index);
      if (attempt != null) {
        attempts.put(attempt, AttemptDiagnostics.SPEAKER + text);
      }
    });
    diagnostics.show(port.scheduler().getRMContext(), attempts);
  }

  /** Whether the RM hands out containers yet: not while it recovers. */
  public boolean ready() {
    return committer.isReady();
  }

  /** The engine has just got the lease: native reservations go, limits are computed afresh. */
  public void entered() {
    keepUp();
    updates.markAll();
  }

  private void keepUp() {
    keptUpMs = Time.monotonicNow();
    Committer.releaseReservations(port);
    LeafLimits.refresh(port);
  }

  /**
   * Commits an answer's proposals, each only while {@code mayCommit}, after the shim's own placements.
   *
   * @param isOver whether the time for that is over; a batch that has begun is finished
   * @return how many proposals were looked at
   * @throws OwnFailureException if every proposal ended in an exception
   */
  public int commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      BooleanSupplier isOver) throws OwnFailureException {
    beforeCommit(mayCommit);
    CommitResult result = committer.commit(answer, directory, limit, mayCommit, isOver);
    metrics.add(ShimMetrics.Counter.TRANSACTIONS_TAKEN_BACK, result.takenBack());
    report(answer, result, directory);
    guard.answered(answer, directory, result.count(Fate.COMMITTED), mayCommit, isOver);
    if (result.size() > 0 && result.count(Fate.INTERNAL_ERROR) == result.size()) {
      throw new OwnFailureException("every proposal of an answer ended in an exception: " + result.error());
    }
    return result.size() - result.count(Fate.OVER_BATCH);
  }

  /** Does nothing if the right to commit has been lost: the stock scheduler then keeps its own reservations. */
  void beforeCommit(BooleanSupplier mayCommit) {
    if (!mayCommit.getAsBoolean()) {
      return;
    }
    if (Time.monotonicNow() - keptUpMs >= UPKEEP_EVERY_MS) {
      keepUp();
    }
    updates.place(mayCommit);
  }

  /** There is no engine from which room could be held. */
  public void hungUp() {
    updates.release();
  }

  /** Looks at an answer's proposals as {@code observe_only} does; changes nothing. */
  public void observe(ProposalFrame answer, Directory directory, int limit) {
    updates.release();
    report(answer, committer.judge(answer, directory, limit), directory);
  }

  private void report(ProposalFrame answer, CommitResult result, Directory directory) {
    long sequence = answer.sequence;
    for (int position = 0; position < result.size(); position++) {
      metrics.fate(result.fate(position));
      directory.fate(sequence, position, result.fate(position));
    }
  }

  /** Something failed on the ResourceManager's side, through no fault of the engine's. */
  public static final class OwnFailureException extends Exception {
    private static final long serialVersionUID = 1L;

    /** With what failed, in words. */
    public OwnFailureException(String message) {
      super(message);
    }
  }
}

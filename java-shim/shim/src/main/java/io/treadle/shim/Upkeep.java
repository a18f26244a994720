// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.ContainerUpdates;
import io.treadle.shim.commit.FeatureRules;
import io.treadle.shim.commit.Headroom;
import io.treadle.shim.commit.LeafLimits;
import io.treadle.shim.commit.Observer;
import io.treadle.shim.commit.Reservations;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;

/**
 * What the shim does besides commits: container updates, reservations, limits of leaves, headroom, the rules for
 * features, and the findings of {@code observe_only}. The link's thread does it between two answers.
 */
final class Upkeep {
  /** How often nodes are searched for reservations: asynchronous scheduling may still make one after the switch. */
  private static final long RESERVATIONS_EVERY_MS = 1000;
  /** How often the rules for features are looked at. */
  private static final long RULES_EVERY_MS = 1000;

  private final ContainerUpdates updates;
  private final Reservations reservations;
  private final LeafLimits limits;
  private final Headroom headroom;
  private final FeatureRules rules;
  private final Observer observer;
  private boolean overridesGuarantees;
  private boolean overridesOrder;
  private long reservationsSoughtMs;
  private long rulesReadMs;
  private volatile boolean refreshed = true;
  private volatile String refusal;

  Upkeep(SchedulerPort port, CommitSettings settings, EngineView view) {
    this.updates = new ContainerUpdates(port, settings, view);
    this.reservations = new Reservations(port);
    this.limits = new LeafLimits(port);
    this.headroom = new Headroom(port);
    this.rules = new FeatureRules(port);
    this.observer = new Observer(port, Observer.DEFAULT_WINDOW_MS, Time::monotonicNow);
  }

  /** Whether no rule for a feature forbade the engine to schedule at the last check. Any thread. */
  boolean mayEnforce() {
    return refusal == null;
  }

  /** The administrator refreshed the configuration, queues included. Any thread. */
  void refreshed() {
    refreshed = true;
  }

  /** What {@code observe_only} found. */
  Observer observer() {
    return observer;
  }

  /** An answer to an AM with the headroom that it really has. The AM's thread. */
  Allocation correctHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return headroom.correct(allocation, attempt);
  }

  /** An AM asked for an increase or a promotion of containers. The AM's thread. */
  void updateAsked(ApplicationAttemptId attempt) {
    updates.mark(attempt);
  }

  /** The rule for a feature that forbids the engine to schedule, or null. */
  synchronized String refusal() {
    long nowMs = Time.monotonicNow();
    if (refreshed || nowMs - rulesReadMs >= RULES_EVERY_MS) {
      // before the rules are read: a refresh meanwhile is looked at in the next tick
      refreshed = false;
      rulesReadMs = nowMs;
      readRules();
    }
    return refusal;
  }

  private void readRules() {
    refusal = rules.refusal(overridesGuarantees, overridesOrder);
  }

  /** Whether the engine's policy overrides the guarantees of queues, or their order. */
  synchronized void overrides(boolean guarantees, boolean order) {
    overridesGuarantees = guarantees;
    overridesOrder = order;
    readRules();
  }

  /** The engine has just got the lease. */
  void entered() {
    limits.refreshNow(Time.monotonicNow());
    releaseReservations();
    updates.markAll();
  }

  /** The engine only proposes. */
  void observes() {
    updates.release();
  }

  private void releaseReservations() {
    reservationsSoughtMs = Time.monotonicNow();
    reservations.releaseAll();
  }

  /**
   * An answer is about to be committed. Does nothing where the right to commit has been lost: what the stock scheduler
   * reserves is its own then.
   */
  void beforeCommit(BooleanSupplier mayCommit) {
    if (!mayCommit.getAsBoolean()) {
      return;
    }
    long nowMs = Time.monotonicNow();
    if (nowMs - reservationsSoughtMs >= RESERVATIONS_EVERY_MS) {
      releaseReservations();
    }
    limits.refresh(nowMs);
    updates.place(mayCommit);
  }
}

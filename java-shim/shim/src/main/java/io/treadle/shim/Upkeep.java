package io.treadle.shim;

import io.treadle.shim.commit.CommitListener;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.ContainerUpdates;
import io.treadle.shim.commit.FeatureRules;
import io.treadle.shim.commit.Headroom;
import io.treadle.shim.commit.LeafLimits;
import io.treadle.shim.commit.Observer;
import io.treadle.shim.commit.Reservations;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;

/**
 * The work that is done once for a scheduler, however many engines schedule: container updates, reservations, limits of
 * leaves, headroom, the rules for features, and the findings of {@code observe_only}. The links' threads do it between
 * two answers, one of them at a time; the others do not wait for it.
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
  private final ReentrantLock inTurns = new ReentrantLock();
  private final Set<Object> overridesGuarantees = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Set<Object> overridesOrder = Collections.newSetFromMap(new IdentityHashMap<>());
  private long reservationsSoughtMs;
  private long rulesReadMs;
  private volatile boolean refreshed = true;
  private volatile String refusal;

  Upkeep(SchedulerPort port, CommitSettings settings) {
    this.updates = new ContainerUpdates(port, settings, CommitListener.NONE);
    this.reservations = new Reservations(port, CommitListener.NONE);
    this.limits = new LeafLimits(port);
    this.headroom = new Headroom(port);
    this.rules = new FeatureRules(port);
    this.observer = new Observer(port, Observer.DEFAULT_WINDOW_MS, Time::monotonicNow);
  }

  /** Whether no rule for a feature forbade engines to schedule at the last check. Any thread. */
  boolean mayEnforce() {
    return refusal == null;
  }

  /** The administrator refreshed the configuration, queues included. Any thread. */
  void refreshed() {
    refreshed = true;
  }

  /** What {@code observe_only} found, of all engines together. */
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

  /** The rule for a feature that forbids engines to schedule, or null. */
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
    refusal = rules.refusal(!overridesGuarantees.isEmpty(), !overridesOrder.isEmpty());
  }

  /** An engine's policy overrides the guarantees of queues, or their order; false when it has gone. */
  synchronized void overrides(Object engine, boolean guarantees, boolean order) {
    put(overridesGuarantees, engine, guarantees);
    put(overridesOrder, engine, order);
    readRules();
  }

  private static void put(Set<Object> engines, Object engine, boolean isIn) {
    if (isIn) {
      engines.add(engine);
    } else {
      engines.remove(engine);
    }
  }

  /** An engine has just got the lease. */
  void entered() {
    inTurns.lock();
    try {
      limits.refreshNow(Time.monotonicNow());
      releaseReservations();
      updates.markAll();
    } finally {
      inTurns.unlock();
    }
  }

  private void releaseReservations() {
    reservationsSoughtMs = Time.monotonicNow();
    reservations.releaseAll();
  }

  /**
   * An engine's answer is about to be committed. Does nothing while another link's thread is at it, nor where the right
   * to commit has been lost: what the stock scheduler reserves is its own then.
   */
  void beforeCommit(BooleanSupplier mayCommit) {
    if (!mayCommit.getAsBoolean() || !inTurns.tryLock()) {
      return;
    }
    try {
      long nowMs = Time.monotonicNow();
      if (nowMs - reservationsSoughtMs >= RESERVATIONS_EVERY_MS) {
        releaseReservations();
      }
      limits.refresh(nowMs);
      updates.place(mayCommit);
    } finally {
      inTurns.unlock();
    }
  }
}

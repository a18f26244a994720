// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.guard;

import io.treadle.shim.Log;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.commit.Ask;
import io.treadle.shim.commit.AskSearch;
import io.treadle.shim.config.ShimConfig;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Keeps an engine that answers and places nothing from starving the cluster. If for {@code idle-guard-ms} nothing was
 * committed although each time it was looked some ask could have been, the gate opens for one round of heartbeats. If
 * the stock scheduler then serves an ask that waited, in room that was free before, the engine is suspended until it is
 * configured anew or a pause is over that doubles each time.
 *
 * <p>The link thread's, but for the methods that say otherwise. Times are milliseconds of one monotonic clock.
 */
public final class IdleGuard {
  /** How long after the last commit or end of a container an engine may report that it waits on purpose. */
  static final long HOLD_MS = 600_000;
  static final long FIRST_PAUSE_MS = 60_000;
  static final long LONGEST_PAUSE_MS = 3_600_000;
  private static final Log LOG = new Log(IdleGuard.class);
  private static final int LOOKS = 4;
  private static final long LEAST_ROUND_MS = 1000;
  private static final long LONGEST_ROUND_MS = 30_000;

  private final SchedulerPort port;
  private final AskSearch search;
  private final LongSupplier clockMs;
  private final LongAdder rounds = new LongAdder();
  /** Held where {@link #suspension} changes: a round that is over, or a configuration before, suspends nobody. */
  private final Object suspending = new Object();
  private volatile long guardMs;
  private volatile long roundMs;
  private volatile boolean configured;
  /** When something was committed last, or a container ended. */
  private volatile long progressMs;
  private volatile IdleRound round;
  /** Why the engine is suspended; null if it is not. */
  private volatile String suspension;

  private String waitsFor = "";
  private long sinceMs;
  private long lookMs;
  private boolean searching;
  private Set<Ask> before = Collections.emptySet();
  private long pauseMs;
  private long resumeMs;
  private boolean paused;
  /** Whether the pause of {@link #suspension} has begun. */
  private boolean noted;

  /**
   * A guard that has seen nothing.
   *
   * @param clockMs a monotonic clock, milliseconds
   */
  public IdleGuard(SchedulerPort port, AskSearch search, LongSupplier clockMs) {
    this.port = port;
    this.search = search;
    this.clockMs = clockMs;
    this.progressMs = clockMs.getAsLong();
  }

  /**
   * Takes over settings, and gives the engine another chance. Any thread.
   *
   * @param idleGuardMs how long an engine may place nothing, 0 for ever
   * @param heartbeatMs from one heartbeat of a node to the next
   */
  public void configure(long idleGuardMs, long heartbeatMs) {
    synchronized (suspending) {
      guardMs = idleGuardMs;
      roundMs = Math.min(Math.max(2 * heartbeatMs, LEAST_ROUND_MS), LONGEST_ROUND_MS);
      suspension = null;
      configured = true;
    }
  }

  /** What the engine says that it waits for on purpose, empty for nothing. */
  public void waitsFor(String what) {
    waitsFor = what;
  }

  /** The engine has just begun to schedule: what was before does not count. */
  public void entered() {
    round = null;
    begin(clockMs.getAsLong());
  }

  /** The engine has said that there is more to come: it is not idle. */
  public void held() {
    if (round == null) {
      begin(clockMs.getAsLong());
    }
  }

  private void begin(long nowMs) {
    sinceMs = nowMs;
    lookMs = nowMs + guardMs / LOOKS;
    searching = false;
    before = Collections.emptySet();
  }

  /**
   * An answer was dealt with.
   *
   * @param committed how many of its proposals were committed
   * @return whether a round is over, so that what the stock scheduler left behind is to be put in order
   */
  public boolean answered(int committed) {
    long nowMs = clockMs.getAsLong();
    boolean roundOver = false;
    if (committed > 0) {
      progressMs = nowMs;
      if (suspension == null && nowMs - resumeMs > pauseMs) {
        paused = false;
      }
      roundOver = round != null;
      round = null;
      begin(nowMs);
    } else if (round != null) {
      roundOver = !roundOpen();
      if (roundOver) {
        round = null;
        begin(nowMs);
      }
    } else if (guardMs == 0 || !waitsFor.isEmpty() && nowMs - progressMs <= HOLD_MS) {
      begin(nowMs);
    } else {
      look(nowMs);
    }
    return roundOver;
  }

  private void look(long nowMs) {
    if (!searching) {
      if (nowMs - lookMs < 0) {
        return;
      }
      search.begin();
      searching = true;
    }
    if (!search.goOn()) {
      return;
    }
    searching = false;
    lookMs = nowMs + guardMs / LOOKS;
    Set<Ask> found = new HashSet<>(search.found());
    if (found.isEmpty()) {
      if (search.complete()) {
        begin(nowMs);
      }
      return;
    }
    if (before.isEmpty()) {
      sinceMs = nowMs;
    }
    Set<Ask> still = new HashSet<>(found);
    still.retainAll(before);
    before = found;
    if (nowMs - sinceMs >= guardMs && !still.isEmpty()) {
      rounds.increment();
      LOG.warn("Treadle's engine has placed nothing for {} s though there is room for {}: the CapacityScheduler places"
          + " beside it for {} ms", TimeUnit.MILLISECONDS.toSeconds(nowMs - sinceMs), still.iterator().next(), roundMs);
      round = new IdleRound(port, still, nowMs + roundMs);
    }
  }

  /** Why the engine may not schedule now, or null. Ends a pause that is over. */
  public String suspension() {
    if (configured) {
      configured = false;
      paused = false;
      resume();
      entered();
    }
    String why = suspension;
    if (why == null) {
      return null;
    }
    long nowMs = clockMs.getAsLong();
    if (!noted) {
      noted = true;
      pauseMs = paused ? Math.min(2 * pauseMs, LONGEST_PAUSE_MS) : FIRST_PAUSE_MS;
      paused = true;
      resumeMs = nowMs + pauseMs;
    }
    if (nowMs - resumeMs >= 0) {
      resume();
      return null;
    }
    return why + ". Correct the policy and run 'yarn rmadmin -refreshQueues'; it gets another chance then, or "
        + TimeUnit.MILLISECONDS.toSeconds(pauseMs) + " s after it lost the lease (" + ShimConfig.IDLE_GUARD_MS + ")";
  }

  private void resume() {
    synchronized (suspending) {
      round = null;
      suspension = null;
    }
    noted = false;
  }

  /** Whether the engine has lost the right to schedule. Any thread. */
  public boolean suspended() {
    return suspension != null;
  }

  /** How many rounds there were. Any thread. */
  public long rounds() {
    return rounds.sum();
  }

  /** Whether the stock scheduler may place although the engine schedules. Any thread. */
  public boolean roundOpen() {
    IdleRound current = round;
    return current != null && clockMs.getAsLong() - current.endMs() < 0;
  }

  /** A container has ended. Any thread. */
  public void ended(RMContainer container) {
    progressMs = clockMs.getAsLong();
    IdleRound current = round;
    if (current != null) {
      current.ended(container);
    }
  }

  /** Space became free otherwise than by the end of a container. Any thread. */
  public void roomChanged() {
    IdleRound current = round;
    if (current != null) {
      current.unclear();
    }
  }

  /** The stock scheduler has placed a container. Any thread, with the scheduler's lock held. */
  public void placedNatively(ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> placement) {
    IdleRound current = round;
    if (current == null || suspension != null || !roundOpen() || !current.usesFreeRoom(placement)) {
      return;
    }
    FiCaSchedulerApp app = placement.getAllocatedOrReservedContainer().getSchedulerApplicationAttempt();
    String why = "the engine answers but places nothing: for " + TimeUnit.MILLISECONDS.toSeconds(guardMs)
        + " s nothing was committed, then the CapacityScheduler found room that had been free for "
        + app.getApplicationId();
    synchronized (suspending) {
      if (round == current && !configured) {
        suspension = why;
      }
    }
  }
}

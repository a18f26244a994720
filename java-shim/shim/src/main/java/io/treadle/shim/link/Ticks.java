// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.commit.CommitTime;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * What a link does in a tick: it sends the engine what changed, waits for the answer, renews the lease, and has the
 * proposals committed or observed. Used by the link thread only.
 */
final class Ticks {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  /** How often an engine is observed at least while something changes or is proposed, milliseconds. */
  private static final long OBSERVE_EVERY_MS = 200;

  private final Mirror mirror;
  private final Lease lease;
  private final AnswerHandler handler;
  private final ShimMetrics metrics;
  private final BooleanSupplier mayCommit;
  private final StateLog states;
  private final StatusReports reports;
  private final EngineWait wait;
  private final Runnable signal;
  private final AnswerLimit answerLimit = new AnswerLimit();
  private boolean entered;
  /** Whether the last answer was only observed; how long it took to get and to judge that one, nanoseconds. */
  private boolean observed;
  private long observedNanos;

  /**
   * Ticks that have not begun.
   *
   * @param mayCommit whether the engine's proposals may be committed now
   * @param wait for engines
   * @param signal has the next tick come soon
   */
  Ticks(Mirror mirror, Lease lease, AnswerHandler handler, ShimMetrics metrics, BooleanSupplier mayCommit,
      StateLog states, StatusReports reports, EngineWait wait, Runnable signal) {
    this.mirror = mirror;
    this.lease = lease;
    this.handler = handler;
    this.metrics = metrics;
    this.mayCommit = mayCommit;
    this.states = states;
    this.reports = reports;
    this.wait = wait;
    this.signal = signal;
  }

  /**
   * The least time from one tick to the next, milliseconds. An engine that is observed repeats itself, so that it is
   * asked less often: asking and judging take a twentieth of the time at most, unless they take longer than 10 ms.
   */
  long leastMs(ShimConfig config) {
    return observed ? pauseMs(observedNanos, config) : config.tickMs;
  }

  static long pauseMs(long nanos, ShimConfig config) {
    long most = Math.min(OBSERVE_EVERY_MS, config.leaseMs / 4);
    return Math.max(config.tickMs, Math.min(most, TimeUnit.NANOSECONDS.toMillis(20 * nanos)));
  }

  /** The conversation is over: the next answer to commit is the first one of another. */
  void hungUp() {
    entered = false;
  }

  /** Why nothing may be committed; null if nothing is against it. */
  void refused(String reason) {
    metrics.show(ShimMetrics.Text.REFUSAL, reason);
    metrics.troubles().goesOn(Troubles.Kind.STARVING, reason != null && handler.starving() ? reason : "");
    states.refusal(reason);
  }

  /** One tick; {@code onAnswer} is called when there is a sound answer, before anything is done with it. */
  void tick(Conversation conversation, LinkSettings now, Runnable onAnswer) throws IOException, OwnFailureException {
    long begin = System.nanoTime();
    observed = false;
    String refusal = now.enforce() ? handler.refusal() : null;
    refused(refusal);
    boolean ready = handler.ready();
    FrameOptions options = options(now, ready, now.enforce() && refusal == null);
    ProposalFrame answer = exchange(conversation, options);
    wait.checkNotStopping();
    answerLimit.answered(System.nanoTime() - begin);
    if (answer.resend()) {
      signal.run();
      return;
    }
    onAnswer.run();
    metrics.add(ShimMetrics.Counter.PROPOSALS, answer.size());
    reports.take(answer);
    if (ready) {
      dealWith(answer, options, now);
      observedNanos = System.nanoTime() - begin;
    }
  }

  private FrameOptions options(LinkSettings now, boolean ready, boolean enforce) {
    int limit = ready ? answerLimit.next(now.config.proposalsMax, now.config.leaseMs) : 0;
    return new FrameOptions(!enforce, now.configuration, limit, now.config);
  }

  private ProposalFrame exchange(Conversation conversation, FrameOptions options) throws IOException {
    wait.begin(conversation);
    try {
      return conversation.exchange(options);
    } finally {
      wait.end();
    }
  }

  private void dealWith(ProposalFrame answer, FrameOptions options, LinkSettings now) throws OwnFailureException {
    if (!lease.held()) {
      entered = false;
    }
    boolean schedules = !options.observe && stillMay();
    if (keepsLease(answer, now.enforce(), schedules) && schedules) {
      commit(answer, options.limit);
    } else {
      entered = false;
      handler.observe(answer, mirror, options.limit);
      observed = true;
    }
    if (answer.size() > 0 || answer.again()) {
      // the engine must learn the fates of its proposals, or has more to say
      signal.run();
    }
  }

  /** What may have come up since the engine was asked. */
  private boolean stillMay() {
    String refusal = handler.refusal();
    refused(refusal);
    return refusal == null;
  }

  /**
   * Renews the lease for an engine that answered, unless it places nothing: then it is given up, and this is false. So
   * it is where nobody serves an application, if the lease has run out: such an answer neither renews nor takes it.
   */
  private boolean keepsLease(ProposalFrame answer, boolean enforce, boolean schedules) {
    if (enforce && handler.starving()) {
      lease.release();
      states.leaseLost("it places nothing");
      return false;
    }
    if (!lease.held()) {
      states.leaseLost(answer.unserved() ? "an application that asks for containers has no engine that lives"
          : "it ran out, the engine or the commits of its last answer took too long");
    }
    // first, so that nobody who sees the lease held sees an earlier error
    metrics.troubles().note(Troubles.Kind.LINK, "");
    if (answer.unserved()) {
      return lease.held();
    }
    lease.renew(schedules);
    states.leaseHeld(schedules);
    return true;
  }

  private void commit(ProposalFrame answer, int limit) throws OwnFailureException {
    if (!entered) {
      handler.entered();
      entered = true;
    }
    long wall = System.nanoTime();
    long cpu = THREADS.getCurrentThreadCpuTime();
    // the other half is for the next frame and its answer
    CommitTime time = new CommitTime(System::nanoTime, lease.leftNanos() / 2);
    String failure = handler.commit(answer, mirror, limit, mayCommit, time);
    long wallNanos = System.nanoTime() - wall;
    answerLimit.committed(answer.size() - time.leftOver(), wallNanos);
    metrics.committed(wallNanos, THREADS.getCurrentThreadCpuTime() - cpu);
    if (failure != null) {
      throw new OwnFailureException("every proposal of an answer ended in an exception: " + failure);
    }
  }

  /** Something failed on the ResourceManager's side, through no fault of the engine's. */
  static final class OwnFailureException extends Exception {
    private static final long serialVersionUID = 1L;

    OwnFailureException(String message) {
      super(message);
    }
  }
}

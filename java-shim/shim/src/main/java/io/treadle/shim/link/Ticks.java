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
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * What a link does in a tick: it sends the engine what changed, waits for the answer, renews the lease, and has the
 * proposals committed or observed. Used by the link thread only.
 *
 * <p>If the commits of an answer will last beyond the time of the next frame, that frame is written before them, and
 * another thread sends it and waits: the engine decides while the link commits. The frame has nothing of those commits,
 * and their fates go with the one after it; until then the engine counts its proposals as placed, as it always does. No
 * frame is ever written in the middle of commits, so that what it says and the fates in it agree.
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
  private final Executor asking;
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
   * @param asking a thread that asks engines ahead
   * @param signal has the next tick come soon
   */
  Ticks(Mirror mirror, Lease lease, AnswerHandler handler, ShimMetrics metrics, BooleanSupplier mayCommit,
      StateLog states, StatusReports reports, EngineWait wait, Executor asking, Runnable signal) {
    this.mirror = mirror;
    this.lease = lease;
    this.handler = handler;
    this.metrics = metrics;
    this.mayCommit = mayCommit;
    this.states = states;
    this.reports = reports;
    this.wait = wait;
    this.asking = asking;
    this.signal = signal;
  }

  /**
   * The least time from one tick to the next, milliseconds. An engine that is observed repeats itself, so that it is asked
   * less often: asking and judging take a twentieth of the time at most, unless they take longer than 10 ms.
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
    Answer answer = exchange(conversation, options(now, ready, now.enforce() && refusal == null));
    wait.checkNotStopping();
    answerLimit.answered(answer.exchangeNanos);
    if (answer.askedAhead || answer.proposals.resend()) {
      // what was committed or has changed since it was asked has not been sent
      signal.run();
    }
    if (answer.proposals.resend()) {
      return;
    }
    onAnswer.run();
    metrics.add(ShimMetrics.Counter.PROPOSALS, answer.proposals.size());
    reports.take(answer.proposals);
    if (ready) {
      dealWith(conversation, answer, now, begin);
      observedNanos = System.nanoTime() - begin;
    }
  }

  private FrameOptions options(LinkSettings now, boolean ready, boolean enforce) {
    int limit = ready ? answerLimit.next(now.config.proposalsMax, now.config.leaseMs) : 0;
    return new FrameOptions(!enforce, now.configuration, limit, now.config);
  }

  private Answer exchange(Conversation conversation, FrameOptions options) throws IOException {
    wait.begin();
    try {
      return conversation.exchange(options);
    } finally {
      wait.end();
    }
  }

  private void dealWith(Conversation conversation, Answer answer, LinkSettings now, long begin)
      throws OwnFailureException {
    if (!lease.held()) {
      entered = false;
    }
    ProposalFrame proposals = answer.proposals;
    boolean schedules = !answer.options.observe && stillMay();
    if (keepsLease(answer, now.enforce(), schedules) && schedules) {
      commit(conversation, answer, now, begin);
    } else {
      entered = false;
      handler.observe(proposals, mirror, answer.options.limit);
      observed = true;
    }
    if (proposals.size() > 0 || proposals.again()) {
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
   * Renews the lease for an engine that answered, unless it places nothing: then it is given up, and this is false. So it
   * is where nobody serves an application, if the lease has run out: such an answer neither renews nor takes it.
   */
  private boolean keepsLease(Answer answer, boolean enforce, boolean schedules) {
    if (enforce && handler.starving()) {
      lease.release();
      states.leaseLost("it places nothing");
      return false;
    }
    if (!lease.held()) {
      states.leaseLost(answer.proposals.unserved() ? "an application that asks for containers has no engine that lives"
          : "it ran out, the engine or the commits of its last answer took too long");
    }
    // first, so that nobody who sees the lease held sees an earlier error
    metrics.troubles().note(Troubles.Kind.LINK, "");
    if (answer.proposals.unserved()) {
      return lease.held();
    }
    lease.renew(schedules, answer.cameNanos);
    if (lease.held()) {
      // else it was there for so long that nothing of it may be committed: the next one gets the lease
      states.leaseHeld(schedules);
    }
    return true;
  }

  private void commit(Conversation conversation, Answer answer, LinkSettings now, long begin)
      throws OwnFailureException {
    ProposalFrame proposals = answer.proposals;
    if (entered) {
      // after the lease was renewed: if the engine fails meanwhile, it is lost at once
      askAhead(conversation, proposals.size(), now, begin);
    } else if (lease.held()) {
      handler.entered();
      entered = true;
    }
    long wall = System.nanoTime();
    long cpu = THREADS.getCurrentThreadCpuTime();
    mirror.decidedOn(answer.writtenMs);
    // the other half is for the next frame and its answer
    CommitTime time = new CommitTime(System::nanoTime, lease.leftNanos() / 2);
    String failure = handler.commit(proposals, mirror, answer.options.limit, mayCommit, time);
    long wallNanos = System.nanoTime() - wall;
    answerLimit.committed(proposals.size() - time.leftOver(), wallNanos);
    metrics.committed(wallNanos, THREADS.getCurrentThreadCpuTime() - cpu);
    if (failure != null) {
      throw new OwnFailureException("every proposal of an answer ended in an exception: " + failure);
    }
  }

  /**
   * Asks for the next answer if commits of so many proposals are likely to last until the next frame is due. Of commits that
   * take less than a quarter of a tick the engine had better know the fates first.
   */
  private void askAhead(Conversation conversation, int proposals, LinkSettings now, long begin) {
    long tick = TimeUnit.MILLISECONDS.toNanos(now.config.tickMs);
    long usual = answerLimit.usualNanos(proposals);
    if (usual >= tick / 4 && System.nanoTime() - begin + usual >= tick) {
      conversation.askAhead(options(now, handler.ready(), true), asking, lease::release);
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

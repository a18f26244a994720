// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Rate;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.AnswerHandler.OwnFailureException;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;

/**
 * What a link says to its engines, one after another, each from {@link #begin} to {@link #end}: in a tick it sends the
 * engine what changed, waits for the answer, renews the lease, and has the proposals committed or observed. Each engine
 * gets a snapshot first; the first answer that is not as it should be ends in an exception. Used by the link thread
 * only, except {@link #stop}.
 */
final class Conversation {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  /** How often an engine is observed at least while something changes or is proposed, milliseconds. */
  private static final long OBSERVE_EVERY_MS = 200;
  /** So many snapshots in a short time, and then one in ten seconds, an engine gets that asks for them. */
  private static final int RESENDS = 5;
  private static final long RESEND_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Mirror mirror;
  private final Lease lease;
  private final AnswerHandler handler;
  private final ShimMetrics metrics;
  private final BooleanSupplier mayCommit;
  private final StateLog states;
  private final StatusReports reports;
  private final Runnable signal;
  private final AnswerLimit answerLimit = new AnswerLimit();
  private final Rate resends = new Rate(System::nanoTime, RESENDS, RESEND_EVERY_NANOS);
  /** Null between two conversations. */
  private volatile Engine engine;
  private volatile boolean stopping;
  private long epoch;
  /** Whether the last answer was one to commit. */
  private boolean entered;
  /** Whether the last answer was only observed; how long it took to get and to judge that one, nanoseconds. */
  private boolean observed;
  private long observedNanos;

  /**
   * No conversation yet.
   *
   * @param mayCommit whether the engine's proposals may be committed now
   * @param signal has the next tick come soon
   */
  Conversation(Mirror mirror, Lease lease, AnswerHandler handler, ShimMetrics metrics, BooleanSupplier mayCommit,
      StateLog states, Runnable signal) {
    this.mirror = mirror;
    this.lease = lease;
    this.handler = handler;
    this.metrics = metrics;
    this.mayCommit = mayCommit;
    this.states = states;
    this.reports = new StatusReports(System::nanoTime, mirror, handler, metrics, states);
    this.signal = signal;
  }

  /** Begins one. */
  void begin(Engine newEngine) {
    epoch = Math.max(epoch + 1, System.currentTimeMillis());
    engine = newEngine;
    mirror.start(epoch);
  }

  /** Whether one has begun and not ended. */
  boolean isOpen() {
    return engine != null;
  }

  /** Ends it, if there is one. */
  void end() {
    Engine over = engine;
    engine = null;
    entered = false;
    if (over != null) {
      // nothing reads for this engine now: nothing is kept for it, and without another one marks cost nothing
      mirror.hungUp();
      reports.hungUp();
      over.close();
    }
  }

  /**
   * From now on nothing waits for an engine; a wait that goes on ends, since its engine is closed. The thread is not
   * interrupted: an interrupt in a commit would break the RM's dispatcher off. Any thread.
   */
  void stop() {
    stopping = true;
    Engine awaited = engine;
    if (awaited != null) {
      awaited.close();
    }
  }

  boolean isStopping() {
    return stopping;
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

  /** Why nothing may be committed; null if nothing is against it. */
  void refused(String reason) {
    metrics.show(ShimMetrics.Text.REFUSAL, reason);
    metrics.troubles().goesOn(Troubles.Kind.STARVING, reason != null && handler.starving() ? reason : "");
    states.refusal(reason);
  }

  /**
   * One tick.
   *
   * @param configuration another number than before has the engine read its own settings again
   * @param onAnswer called when there is a sound answer, before anything is done with it
   * @throws IOException if there is no answer, a late or malformed one, or one to something else
   * @throws OwnFailureException if every proposal ended in an exception on our side
   */
  void tick(ShimConfig config, int configuration, Runnable onAnswer) throws IOException, OwnFailureException {
    long begin = System.nanoTime();
    observed = false;
    boolean enforce = config.mode == ShimConfig.Mode.ENFORCE;
    String refusal = enforce ? handler.refusal() : null;
    refused(refusal);
    boolean ready = handler.ready();
    int limit = ready ? answerLimit.next(config.proposalsMax, config.leaseMs) : 0;
    FrameOptions options = new FrameOptions(!enforce || refusal != null, configuration, limit, config);
    ProposalFrame answer = exchange(options);
    checkNotStopping();
    answerLimit.answered(System.nanoTime() - begin);
    if (answer.resend()) {
      signal.run();
      return;
    }
    onAnswer.run();
    metrics.add(ShimMetrics.Counter.PROPOSALS, answer.size());
    reports.take(answer);
    if (ready) {
      dealWith(answer, options, enforce);
      observedNanos = System.nanoTime() - begin;
    }
  }

  /**
   * Sends the engine what changed, one frame after the other, and waits for each answer; returns the answer to the last
   * frame, or the first by which the engine lost track: the next frames are a snapshot.
   */
  private ProposalFrame exchange(FrameOptions options) throws IOException {
    long begin = System.nanoTime();
    List<byte[]> frames = mirror.frames(Time.now(), Time.monotonicNow(), options);
    long written = System.nanoTime();
    metrics.add(ShimMetrics.Counter.FRAME_NANOS, written - begin);
    ProposalFrame answer = null;
    long sequence = mirror.sequence() - frames.size();
    for (byte[] frame : frames) {
      sequence++;
      answer = ask(frame, sequence, options);
      if (answer.resend()) {
        resend();
        break;
      }
    }
    metrics.add(ShimMetrics.Counter.ANSWER_WAIT_NANOS, System.nanoTime() - written);
    return answer;
  }

  private ProposalFrame ask(byte[] frame, long sequence, FrameOptions options) throws IOException {
    checkNotStopping();
    long begin = System.nanoTime();
    byte[] reply;
    try {
      reply = engine.decide(frame);
    } catch (RuntimeException | Error e) {
      // so that its failures, of any kind, are distinguished from those of the ResourceManager
      throw new IOException("the engine failed: " + e, e);
    }
    long nanos = System.nanoTime() - begin;
    metrics.answered(frame.length, reply == null ? 0 : reply.length, nanos);
    if (TimeUnit.NANOSECONDS.toMillis(nanos) > options.config.leaseMs) {
      throw new IOException("an answer later than the lease of " + options.config.leaseMs + " ms");
    }
    ProposalFrame answer = ProposalFrame.parse(reply, options.limit);
    if (answer.epoch() != epoch || answer.sequence() != sequence) {
      throw new IOException("an answer to frame " + answer.sequence() + " of epoch " + answer.epoch()
          + " instead of frame " + sequence + " of epoch " + epoch);
    }
    return answer;
  }

  private void checkNotStopping() throws InterruptedIOException {
    if (stopping) {
      throw new InterruptedIOException("the scheduler is stopping");
    }
  }

  private void resend() throws IOException {
    if (!resends.take()) {
      throw new IOException("the engine asks for snapshots too often: it does not understand the frames,"
          + " or fails");
    }
    mirror.snapshotNeeded();
  }

  private void dealWith(ProposalFrame answer, FrameOptions options, boolean enforce) throws OwnFailureException {
    if (!lease.held()) {
      entered = false;
    }
    boolean schedules = !options.observe && stillMay();
    if (keepsLease(answer, enforce, schedules) && schedules) {
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
    long end = wall + lease.leftNanos() / 2;
    int committed = handler.commit(answer, mirror, limit, mayCommit, () -> System.nanoTime() - end >= 0);
    long wallNanos = System.nanoTime() - wall;
    answerLimit.committed(committed, wallNanos);
    metrics.add(ShimMetrics.Counter.COMMIT_WALL_NANOS, wallNanos);
    metrics.add(ShimMetrics.Counter.COMMIT_CPU_NANOS, THREADS.getCurrentThreadCpuTime() - cpu);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.CommitPipeline.OwnFailureException;
import io.treadle.shim.CommitPipeline;
import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.Rate;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.FrameWriter.FrameTooSmallException;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.thirdparty.com.google.common.collect.Maps;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.Uninterruptibles;
import org.apache.hadoop.util.Time;

/**
 * The thread that exchanges frames and answers with an engine, one per scheduler; no other waits for Python. In a tick
 * it sends the changes, waits for the answer, renews the lease, and has the proposals committed or observed. A tick
 * comes at once after a change, but at least {@code tick-ms} after the last (up to 200 ms if its answer was only
 * observed), and every quarter of a lease without changes, so that the lease continues.
 *
 * <p>A conversation with an engine begins with a snapshot. Any error ends it, such as an invalid answer: the lease is
 * given up, and after a pause that grows with each failure a new one begins. The lease is taken only after a complete
 * snapshot was answered. Non-public members are for the link thread.
 */
public final class Link implements Runnable {
  private static final Log LOG = new Log(Link.class);
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final long FIRST_PAUSE_MS = 50;
  private static final long LONGEST_PAUSE_MS = 5000;
  private static final long CONNECT_PAUSE_MS = 50;
  private static final long STOP_TIMEOUT_MS = 10_000;
  private static final int FAILURES_COUNTED = 16;
  /** A connection that has lasted so long makes up for earlier failures. */
  private static final long STEADY_NANOS = TimeUnit.SECONDS.toNanos(10);
  /** How often an engine is observed at least while something changes or is proposed, milliseconds. */
  private static final long OBSERVE_EVERY_MS = 200;
  /** So many snapshots in a short time, and then one in ten seconds, an engine gets that asks for them. */
  private static final int RESENDS = 5;
  private static final long RESEND_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Mirror mirror;
  private final Lease lease;
  private final EngineSource source;
  private final ShimMetrics metrics;
  private final Thread thread;
  private final CommitPipeline pipeline;
  private final BooleanSupplier mayCommit;
  private final StateLog states = new StateLog(System::nanoTime);
  private final StatusReports reports;
  private final AnswerLimit answerLimit = new AnswerLimit();
  private final Rate resends = new Rate(System::nanoTime, RESENDS, RESEND_EVERY_NANOS);

  /** The settings, and how often they were set again. */
  private volatile Map.Entry<ShimConfig, Integer> settings;
  private volatile boolean signalled;
  private volatile boolean stopping;
  /** Null between two conversations. */
  private volatile Engine engine;

  /** Those by which the latest step went. */
  private Map.Entry<ShimConfig, Integer> conversed;
  private long conversingSinceNanos;
  private int failures;
  private long epoch;
  /** Whether the last answer was one to commit. */
  private boolean entered;
  /** Whether the last answer was only observed; how long it took to get and to judge that one, nanoseconds. */
  private boolean observed;
  private long observedNanos;

  /**
   * A link that has not started.
   *
   * @param name of the thread
   * @param mayCommit whether the engine's proposals may be committed now
   */
  public Link(String name, Mirror mirror, Lease lease, EngineSource source, CommitPipeline pipeline,
      ShimMetrics metrics, BooleanSupplier mayCommit, ShimConfig config) {
    this.mirror = mirror;
    this.lease = lease;
    this.source = source;
    this.metrics = metrics;
    this.settings = Maps.immutableEntry(config, 0);
    this.thread = new Thread(this, name);
    this.thread.setDaemon(true);
    this.pipeline = pipeline;
    this.mayCommit = mayCommit;
    this.reports = new StatusReports(System::nanoTime, mirror, pipeline, metrics, states);
  }

  /** Starts the thread. */
  public void start() {
    thread.start();
  }

  /** Uses other settings from the next tick on, and immediately retries after giving up. */
  public synchronized void settings(ShimConfig newConfig) {
    settings = Maps.immutableEntry(newConfig, settings.getValue() + 1);
    signal();
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  public void signal() {
    if (!signalled) {
      signalled = true;
      LockSupport.unpark(thread);
    }
  }

  /**
   * Has the thread, the conversation and the sidecar end, and waits for that a few seconds at most. A wait for an
   * engine ends, since that is closed. The thread is not interrupted: an interrupt in a commit would break the RM's
   * dispatcher off.
   */
  public void stop() {
    stopping = true;
    Engine awaited = engine;
    if (awaited != null) {
      awaited.close();
    }
    LockSupport.unpark(thread);
    Uninterruptibles.joinUninterruptibly(thread, STOP_TIMEOUT_MS, TimeUnit.MILLISECONDS);
  }

  @Override
  public void run() {
    try {
      while (!stopping) {
        long begin = System.nanoTime();
        pause(begin, safeStep());
      }
    } finally {
      end();
    }
  }

  /** An Error that left this thread would end the RM, whose handler of uncaught ones exits. */
  private long safeStep() {
    try {
      return step();
    } catch (Throwable t) {
      lease.release();
      return LONGEST_PAUSE_MS;
    }
  }

  /** One step of the thread's life; answers how long to wait for the next unless there is a signal, milliseconds. */
  private long step() {
    try {
      Map.Entry<ShimConfig, Integer> before = conversed;
      conversed = settings;
      ShimConfig now = conversed.getKey();
      if (before != conversed) {
        turnTo(before == null ? now : before.getKey(), now);
      }
      if (now.mode == ShimConfig.Mode.OFF) {
        return LONGEST_PAUSE_MS;
      }
      if (engine == null && !connect(now)) {
        return CONNECT_PAUSE_MS;
      }
      long cpu = THREADS.getCurrentThreadCpuTime();
      tick(now, conversed.getValue());
      metrics.add(ShimMetrics.Counter.LINK_CPU_NANOS, THREADS.getCurrentThreadCpuTime() - cpu);
      return mostMs(now);
    } catch (Throwable t) {
      return failed(t);
    }
  }

  /** From one tick to the next when nothing happens: often enough for the lease and for looks for starvation. */
  private static long mostMs(ShimConfig config) {
    int guardMs = config.starvationMs == 0 ? Integer.MAX_VALUE : config.starvationMs / 4;
    return Math.min(config.leaseMs / 4, Math.max(guardMs, config.tickMs));
  }

  private void turnTo(ShimConfig before, ShimConfig now) {
    failures = 0;
    states.refreshed();
    source.retry();
    if (before.mode != now.mode || before.leaseMs != now.leaseMs) {
      // another mode: the engine's assumptions are void; another lease: calls have another time-out
      hangUp("mode or lease-ms changed");
    }
    if (now.mode == ShimConfig.Mode.OFF) {
      // no engine is asked any more, so none would report the end of the problem
      refusal(false);
      metrics.troubles.note(Troubles.Kind.LINK, "");
      metrics.troubles.note(Troubles.Kind.ENGINE, "");
      source.stop();
    }
  }

  private boolean connect(ShimConfig config) throws IOException {
    engine = source.connect(config.leaseMs);
    if (engine == null) {
      return false;
    }
    conversingSinceNanos = System.nanoTime();
    epoch = Math.max(epoch + 1, System.currentTimeMillis());
    mirror.start(epoch);
    return true;
  }

  private long failed(Throwable t) {
    lease.release();
    if (stopping) {
      return 0;
    }
    boolean talked = engine != null;
    boolean engines = t instanceof IOException;
    boolean expected = engines || t instanceof OwnFailureException || t instanceof FrameTooSmallException;
    String text = Printable.brief(expected && t.getMessage() != null ? t.getMessage() : t.toString());
    String reason = engines ? text : "in the ResourceManager, not in the engine: " + text;
    hangUp(reason);
    metrics.linkFailed(reason);
    states.failed(reason, expected ? null : t);
    if (talked && engines) {
      source.failed();
    }
    return Math.min(FIRST_PAUSE_MS << Math.min(failures++, FAILURES_COUNTED), LONGEST_PAUSE_MS);
  }

  private void hangUp(String reason) {
    lease.release();
    states.leaseLost(reason);
    Engine over = engine;
    engine = null;
    entered = false;
    if (over != null) {
      // nothing reads for this engine now: nothing is kept for it, and without another one marks cost nothing
      mirror.hungUp();
      reports.hungUp();
      pipeline.hungUp();
      over.close();
    }
  }

  /** Waits until {@code pauseMs} after {@code begin}; in a conversation a signal shortens that to the tick. */
  private void pause(long begin, long pauseMs) {
    long leastMs = engine != null ? leastMs(settings.getKey()) : 0;
    long least = begin + TimeUnit.MILLISECONDS.toNanos(leastMs);
    long most = begin + TimeUnit.MILLISECONDS.toNanos(pauseMs);
    while (!stopping) {
      long time = System.nanoTime();
      long end = signalled && engine != null || conversed != settings ? least : most;
      if (end - time <= 0) {
        break;
      }
      LockSupport.parkNanos(this, end - time);
    }
    signalled = false;
  }

  /**
   * The least time from one tick to the next, milliseconds. An engine that is observed repeats itself, so that it is
   * asked less often: asking and judging take a twentieth of the time at most, unless they take longer than 10 ms.
   */
  private long leastMs(ShimConfig config) {
    return observed ? pauseMs(observedNanos, config) : config.tickMs;
  }

  static long pauseMs(long nanos, ShimConfig config) {
    long most = Math.min(OBSERVE_EVERY_MS, config.leaseMs / 4);
    return Math.max(config.tickMs, Math.min(most, TimeUnit.NANOSECONDS.toMillis(20 * nanos)));
  }

  /** Why nothing may be committed now in mode enforce; null if nothing is against it, and in other modes. */
  private String refusal(boolean enforce) {
    String reason = enforce ? pipeline.refusal() : null;
    metrics.show(ShimMetrics.Text.REFUSAL, reason);
    metrics.troubles.goesOn(Troubles.Kind.STARVING, reason != null && pipeline.starving() ? reason : "");
    states.refusal(reason);
    return reason;
  }

  /**
   * One tick.
   *
   * @param configuration another number than before has the engine read its own settings again
   * @throws IOException if there is no answer, a late or malformed one, or one to something else
   * @throws OwnFailureException if every proposal ended in an exception on our side
   */
  private void tick(ShimConfig config, int configuration) throws IOException, OwnFailureException {
    long begin = System.nanoTime();
    observed = false;
    boolean enforce = config.mode == ShimConfig.Mode.ENFORCE;
    String refusal = refusal(enforce);
    boolean ready = pipeline.ready();
    int limit = ready ? answerLimit.next(config.proposalsMax, config.leaseMs) : 0;
    FrameOptions options = new FrameOptions(!enforce || refusal != null, configuration, limit, config);
    ProposalFrame answer = exchange(options);
    checkNotStopping();
    answerLimit.answered(System.nanoTime() - begin);
    if (answer.resend) {
      signal();
      return;
    }
    if (System.nanoTime() - conversingSinceNanos > STEADY_NANOS) {
      failures = 0;
      states.steady();
    }
    source.answered();
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
      if (answer.resend) {
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
    if (answer.epoch != epoch || answer.sequence != sequence) {
      throw new IOException("an answer to frame " + answer.sequence + " of epoch " + answer.epoch
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
    // again: something may have come up since the engine was asked
    boolean schedules = !options.observe && refusal(true) == null;
    if (keepsLease(answer, enforce, schedules) && schedules) {
      commit(answer, options.limit);
    } else {
      entered = false;
      pipeline.observe(answer, mirror, options.limit);
      observed = true;
    }
    if (answer.size() > 0 || answer.again) {
      // the engine must learn the fates of its proposals, or has more to say
      signal();
    }
  }

  /**
   * Renews the lease for an engine that answered, unless it places nothing: then it is given up, and this is false. The
   * same applies to an answer with an unserved application after the lease has expired: it neither renews nor takes it.
   */
  private boolean keepsLease(ProposalFrame answer, boolean enforce, boolean schedules) {
    if (enforce && pipeline.starving()) {
      lease.release();
      states.leaseLost("it places nothing");
      return false;
    }
    if (!lease.held()) {
      states.leaseLost(answer.unserved ? "an application that asks for containers has no engine that lives"
          : "it ran out, the engine or the commits of its last answer took too long");
    }
    // first, so that a reader who sees the lease held sees no earlier error
    metrics.troubles.note(Troubles.Kind.LINK, "");
    if (answer.unserved) {
      return lease.held();
    }
    lease.renew(schedules);
    states.leaseHeld(schedules);
    return true;
  }

  private void commit(ProposalFrame answer, int limit) throws OwnFailureException {
    if (!entered) {
      pipeline.entered();
      entered = true;
    }
    long wall = System.nanoTime();
    long cpu = THREADS.getCurrentThreadCpuTime();
    // the other half is for the next frame and its answer
    long end = wall + lease.leftNanos() / 2;
    int committed = pipeline.commit(answer, mirror, limit, mayCommit, () -> System.nanoTime() - end >= 0);
    long wallNanos = System.nanoTime() - wall;
    answerLimit.committed(committed, wallNanos);
    metrics.add(ShimMetrics.Counter.COMMIT_WALL_NANOS, wallNanos);
    metrics.add(ShimMetrics.Counter.COMMIT_CPU_NANOS, THREADS.getCurrentThreadCpuTime() - cpu);
  }

  private void end() {
    for (Runnable part : Arrays.<Runnable>asList(() -> hangUp("the scheduler stops"), source::stop)) {
      try {
        part.run();
      } catch (Throwable t) {
        LOG.warn("Treadle's link or its sidecar did not end cleanly", t);
      }
    }
  }
}

package io.treadle.shim.link;

import io.treadle.shim.Printable;
import io.treadle.shim.commit.CommitTime;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.FrameTooSmallException;
import io.treadle.shim.wire.MalformedReplyException;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The thread that talks to an engine, one for a scheduler. In each tick it tells what changed, waits for the answer,
 * and has the proposals committed or observed. It is the only thread that waits for Python. A tick comes at once when
 * something changed, but at least {@code tick-ms} after the last (200 ms if its answer was only observed), and every
 * quarter of a lease when nothing does, so that the lease goes on.
 *
 * <p>Whatever goes wrong ends the conversation: the lease is given up, and after a pause that grows with each failure a
 * new one begins with a snapshot. The lease is taken only after a complete snapshot was answered.
 */
public final class Link implements Runnable {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final long FIRST_PAUSE_MS = 50;
  private static final long LONGEST_PAUSE_MS = 5000;
  private static final long CONNECT_PAUSE_MS = 50;
  /** Judging an answer takes the scheduler's read lock for each batch of it, and nothing of it is of use to anybody. */
  private static final long OBSERVE_EVERY_MS = 200;
  private static final long STOP_TIMEOUT_MS = 10_000;
  private static final int FAILURES_COUNTED = 16;
  /** The most texts of an engine that are logged between two refreshes. */
  private static final int TEXTS_TOLD = 100;
  /** A connection that has lasted so long makes up for earlier failures. */
  private static final long STEADY_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Mirror mirror;
  private final Lease lease;
  private final EngineSource source;
  private final AnswerHandler handler;
  private final AnswerLimit answerLimit = new AnswerLimit();
  private final ShimMetrics metrics;
  private final BooleanSupplier mayCommit;
  private final Thread thread;
  private final Object waitingLock = new Object();
  private boolean waiting;

  private volatile LinkSettings settings;
  private volatile boolean stopping;
  private volatile boolean signalled;

  private Conversation conversation;
  private LinkSettings conversed;
  private long epoch;
  private long conversingSinceNanos;
  private int failures;
  private boolean entered;
  /** Whether the last answer was only observed. */
  private boolean observed;
  private String lastReason = "";
  private final StateLog states;
  /** What the engine said since the last refresh. */
  private final Set<String> told = new HashSet<>();

  /**
   * A link that has not started.
   *
   * @param name of the thread
   * @param mayCommit whether the engine's proposals may be committed now
   */
  public Link(String name, Mirror mirror, Lease lease, EngineSource source, AnswerHandler handler, ShimMetrics metrics,
      BooleanSupplier mayCommit, LinkSettings settings) {
    this.mirror = mirror;
    this.lease = lease;
    this.source = source;
    this.handler = handler;
    this.metrics = metrics;
    this.mayCommit = mayCommit;
    this.settings = settings;
    this.states = new StateLog(System::nanoTime, handler::engine);
    this.thread = new Thread(this, name);
    this.thread.setDaemon(true);
  }

  /** Starts the thread. */
  public void start() {
    thread.start();
  }

  /** Takes other settings from the next tick on, and tries again at once what was given up. */
  public void settings(LinkSettings newSettings) {
    settings = newSettings;
    signal();
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  public void signal() {
    if (!signalled) {
      signalled = true;
      LockSupport.unpark(thread);
    }
  }

  /** Has the thread, the conversation and the sidecar end, and does not wait for it. */
  public void stopSoon() {
    synchronized (waitingLock) {
      stopping = true;
      if (waiting) {
        thread.interrupt();
      }
    }
    LockSupport.unpark(thread);
  }

  /** Whether the thread has not ended. */
  public boolean runs() {
    return thread.isAlive();
  }

  /** The same as {@link #stopSoon}, and waits for the end a few seconds at most. */
  public void stop() {
    stopSoon();
    boolean interrupted = false;
    try {
      thread.join(STOP_TIMEOUT_MS);
    } catch (InterruptedException e) {
      interrupted = true;
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
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
      LinkSettings now = settings;
      if (now != conversed) {
        turnTo(now);
      }
      if (now.off()) {
        return LONGEST_PAUSE_MS;
      }
      if (conversation == null && !connect(now.config)) {
        return CONNECT_PAUSE_MS;
      }
      long cpu = THREADS.getCurrentThreadCpuTime();
      tick(now);
      metrics.ticked(THREADS.getCurrentThreadCpuTime() - cpu);
      return pauseMs(now.config);
    } catch (Throwable t) {
      return failed(t);
    }
  }

  /** From one tick to the next when nothing happens: often enough for the lease and for the idle guard. */
  private static long pauseMs(ShimConfig config) {
    int guardMs = config.idleGuardMs == 0 ? Integer.MAX_VALUE : config.idleGuardMs / 4;
    return Math.min(config.leaseMs / 4, Math.max(guardMs, config.tickMs));
  }

  private void turnTo(LinkSettings now) {
    boolean modeChanged = conversed != null && conversed.config.mode != now.config.mode;
    boolean leaseChanged = conversed != null && conversed.config.leaseMs != now.config.leaseMs;
    conversed = now;
    failures = 0;
    told.clear();
    source.retry();
    if (modeChanged || leaseChanged) {
      // another mode: what the engine assumes is void; another lease: calls have another time-out
      hangUp("mode or lease-ms changed");
    }
    if (now.off()) {
      // nobody is asked any more, so that nobody would say that it is mended
      refused(null);
      metrics.troubles().note(Troubles.Kind.LINK, "");
      metrics.troubles().note(Troubles.Kind.ENGINE, "");
      source.stop();
    }
  }

  private boolean connect(ShimConfig config) throws IOException {
    Engine engine = source.connect(config.leaseMs);
    if (engine == null) {
      return false;
    }
    epoch = Math.max(epoch + 1, System.currentTimeMillis());
    conversingSinceNanos = System.nanoTime();
    conversation = new Conversation(new WatchedEngine(engine), epoch, mirror, metrics,
        handler::decisionMaxMs);
    return true;
  }

  private void tick(LinkSettings now) throws IOException, MalformedReplyException, OwnFailureException {
    observed = false;
    String refusal = now.enforce() ? handler.refusal() : null;
    refused(refusal);
    boolean ready = handler.ready();
    boolean enforce = now.enforce() && refusal == null;
    int limit = ready ? Math.max(answerLimit.next(now.config.proposalsMax, now.config.leaseMs),
        Math.min(now.config.proposalsMax, handler.proposalsLeast())) : 0;
    long begin = System.nanoTime();
    ProposalFrame answer = exchange(new FrameOptions(!enforce, now.configuration, limit, now.config.mode.text(),
        now.config.leaseMs), now.config.proposalsMax);
    checkNotStopping();
    answerLimit.answered(System.nanoTime() - begin);
    if (answer == null) {
      signal();
      return;
    }
    answered(answer);
    if (!ready) {
      return;
    }
    if (!lease.held()) {
      entered = false;
    }
    boolean schedules = enforce && stillMay();
    if (answer.busy()) {
      busy(now, schedules);
      return;
    }
    if (handler.decisionMaxMs() > 0 && mirror.isFresh()) {
      // one of several decides on a snapshot only when it is asked again
      signal();
    }
    if (renewed(now.enforce(), schedules) && schedules) {
      commit(answer, limit);
    } else {
      entered = false;
      handler.observe(answer, mirror, limit);
      observed = true;
    }
    if (answer.size() > 0) {
      // the engine must learn the fates of its proposals
      signal();
    }
  }

  /** An engine that says that it decides keeps the lease, and does not get it; it is asked again soon. */
  private void busy(LinkSettings now, boolean schedules) {
    handler.busy();
    if (lease.held()) {
      renewed(now.enforce(), schedules);
    }
    observed = !schedules;
    signal();
  }

  /** What may have come up since the engine was asked. */
  private boolean stillMay() {
    String refusal = handler.refusal();
    refused(refusal);
    return refusal == null;
  }

  private void refused(String reason) {
    metrics.refusal(reason);
    metrics.troubles().goesOn(Troubles.Kind.STARVING, reason != null && handler.starving() ? reason : "");
    states.refusal(reason);
  }

  /** Renews the lease for an engine that answered, unless it places nothing; answers whether it holds it. */
  private boolean renewed(boolean enforce, boolean schedules) {
    if (enforce && handler.starving()) {
      lease.release();
      states.leaseLost("it places nothing");
      return false;
    }
    if (!lease.held()) {
      states.leaseLost("it ran out, the engine or the commits of its last answer took too long");
    }
    // first, so that nobody who sees the lease held sees an earlier error
    metrics.troubles().note(Troubles.Kind.LINK, "");
    lease.renew(schedules);
    states.leaseHeld(schedules);
    return true;
  }

  /**
   * Interrupted by {@link #stop} here and nowhere else: an interrupt in a commit would break the RM's dispatcher off.
   */
  private ProposalFrame exchange(FrameOptions options, int most) throws IOException, MalformedReplyException {
    synchronized (waitingLock) {
      checkNotStopping();
      waiting = true;
    }
    try {
      return conversation.exchange(options, most);
    } finally {
      synchronized (waitingLock) {
        waiting = false;
      }
    }
  }

  /** An interrupt may come together with the answer; nothing of the RM's may be touched with it. */
  private void checkNotStopping() throws InterruptedIOException {
    if (stopping) {
      throw new InterruptedIOException("the scheduler is stopping");
    }
  }

  private void commit(ProposalFrame answer, int limit) throws OwnFailureException {
    if (!entered) {
      handler.entered();
      entered = true;
    }
    long wall = System.nanoTime();
    long cpu = THREADS.getCurrentThreadCpuTime();
    mirror.decidedOn(answer.base());
    // the other half is for the next frame and its answer
    CommitTime time = new CommitTime(System::nanoTime, TimeUnit.MILLISECONDS.toNanos(conversed.config.leaseMs) / 2);
    String failure = handler.commit(answer, mirror, limit, mayCommit, time);
    long wallNanos = System.nanoTime() - wall;
    answerLimit.committed(answer.size() - time.leftOver(), wallNanos);
    metrics.committed(wallNanos, THREADS.getCurrentThreadCpuTime() - cpu);
    if (failure != null) {
      throw new OwnFailureException("every proposal of an answer ended in an exception: " + failure);
    }
  }

  private void answered(ProposalFrame answer) throws IOException {
    if (System.nanoTime() - conversingSinceNanos > STEADY_NANOS) {
      failures = 0;
      lastReason = "";
    }
    source.answered();
    metrics.proposed(answer.size());
    if (answer.status().isEmpty()) {
      handler.engines(null);
    } else {
      EngineStatus status = EngineStatus.parse(answer.status());
      metrics.learned(status.learned);
      mirror.keysFor(status.keysFor);
      handler.overrides(status.overridesGuarantees, status.overridesOrder);
      handler.engines(status.engines);
      handler.diagnostics(status.diagnostics, mirror);
      handler.givenUp(status.givenUp, mirror);
      metrics.figures(status.figures);
      // after that, so that nobody who sees the policy's name sees Schedules of an earlier policy
      metrics.policy(status.policy);
      states.policy(status.policy);
      waitsFor(status.waitsFor);
      metrics.troubles().note(Troubles.Kind.ENGINE, status.error);
      if (!status.error.isEmpty() && isNews(status.error)) {
        LOG.error("{}: {}", states.engine(), status.error);
      }
      metrics.warnings(status.warnings);
      status.warnings.stream().filter(this::isNews)
          .forEach(warning -> LOG.warn("{}: {}", states.engine(), warning));
    }
  }

  private void waitsFor(String what) {
    handler.waitsFor(what);
    metrics.waitsFor(what);
  }

  /** An engine may say the same, or something new, in every answer: neither may fill the RM's log. */
  private boolean isNews(String text) {
    return told.size() < TEXTS_TOLD && told.add(text);
  }

  private long failed(Throwable t) {
    lease.release();
    if (stopping) {
      return 0;
    }
    boolean talked = conversation != null;
    boolean engines = t instanceof IOException || t instanceof MalformedReplyException;
    boolean expected = engines || t instanceof OwnFailureException || t instanceof FrameTooSmallException;
    // an engine's exceptions, and a sidecar's last words, may hold what users have written
    String text = Printable.line(expected && t.getMessage() != null ? t.getMessage() : t.toString());
    String reason = engines ? text : "in the ResourceManager, not in the engine: " + text;
    hangUp(reason);
    metrics.linkFailed(reason);
    if (!reason.equals(lastReason)) {
      lastReason = reason;
      LOG.warn("No decision by {}, {}: {}", states.engine(), states.whoElse("carries on"), reason, expected ? null : t);
    }
    if (talked && engines) {
      source.failed();
    }
    failures = Math.min(failures + 1, FAILURES_COUNTED);
    return Math.min(FIRST_PAUSE_MS << failures - 1, LONGEST_PAUSE_MS);
  }

  private void hangUp(String reason) {
    lease.release();
    states.leaseLost(reason);
    entered = false;
    Conversation over = conversation;
    if (over != null) {
      conversation = null;
      // nobody reads for this engine now: nothing is kept for it, and without another one marks cost nothing
      mirror.hungUp();
      // the next engine holds back only if it asks for that itself
      waitsFor("");
      metrics.warnings(Collections.emptyList());
      over.close();
    }
  }

  /** Waits until {@code pauseMs} after {@code begin}; in a conversation a signal shortens that to the tick. */
  private void pause(long begin, long pauseMs) {
    LinkSettings now = settings;
    long least = begin + (conversation == null ? 0 : TimeUnit.MILLISECONDS.toNanos(tickMs(now.config)));
    long most = begin + TimeUnit.MILLISECONDS.toNanos(pauseMs);
    while (!stopping) {
      long time = System.nanoTime();
      long end = signalled && conversation != null || now != settings ? least : most;
      if (end - time <= 0) {
        break;
      }
      LockSupport.parkNanos(this, end - time);
    }
    signalled = false;
  }

  /** The least time between two ticks. */
  private long tickMs(ShimConfig config) {
    return observed ? Math.max(config.tickMs, Math.min(OBSERVE_EVERY_MS, config.leaseMs / 4)) : config.tickMs;
  }

  private void end() {
    try {
      hangUp("the scheduler stops");
    } catch (Throwable t) {
      LOG.warn("Treadle's link did not end cleanly", t);
    }
    Thread.interrupted();
    try {
      source.stop();
    } catch (Throwable t) {
      LOG.warn("Treadle's sidecar did not end cleanly", t);
    }
  }

  /** An engine whose failures, of any kind, are told from those of the ResourceManager: they are IOExceptions. */
  static final class WatchedEngine implements Engine {
    private final Engine engine;

    WatchedEngine(Engine engine) {
      this.engine = engine;
    }

    @Override
    public byte[] decide(byte[] frame) throws IOException {
      try {
        return engine.decide(frame);
      } catch (RuntimeException | Error e) {
        throw new IOException("the engine failed: " + e, e);
      }
    }

    @Override
    public void close() {
      engine.close();
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

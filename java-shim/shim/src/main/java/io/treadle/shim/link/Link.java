// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.AnswerHandler.OwnFailureException;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.FrameWriter.FrameTooSmallException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.Uninterruptibles;

/**
 * The thread that talks to an engine, one for a scheduler: what begins and ends a {@link Conversation}, and when its
 * next tick is. It is the only thread that waits for Python. A tick comes at once when something changed, but at
 * least {@code tick-ms} after the last (up to 200 ms if its answer was only observed), and every quarter of a lease
 * when nothing does, so that the lease goes on.
 *
 * <p>Whatever goes wrong ends the conversation: the lease is given up, and after a pause that grows with each failure a
 * new one begins with a snapshot. The lease is taken only after a complete snapshot was answered.
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

  private final Lease lease;
  private final EngineSource source;
  private final ShimMetrics metrics;
  private final Thread thread;
  private final StateLog states = new StateLog(System::nanoTime);
  private final Conversation conversation;

  private volatile ShimConfig config;
  /** How often {@link #config} was set again; a tick reads both under this object's lock. */
  private volatile int refreshes;
  private volatile boolean signalled;

  private ShimConfig conversed;
  private int conversedRefreshes;
  private long conversingSinceNanos;
  private int failures;

  /**
   * A link that has not started.
   *
   * @param name of the thread
   * @param mayCommit whether the engine's proposals may be committed now
   */
  public Link(String name, Mirror mirror, Lease lease, EngineSource source, AnswerHandler handler, ShimMetrics metrics,
      BooleanSupplier mayCommit, ShimConfig config) {
    this.lease = lease;
    this.source = source;
    this.metrics = metrics;
    this.config = config;
    this.thread = new Thread(this, name);
    this.thread.setDaemon(true);
    this.conversation = new Conversation(mirror, lease, handler, metrics, mayCommit, states, this::signal);
  }

  /** Starts the thread. */
  public void start() {
    thread.start();
  }

  /** Takes other settings from the next tick on, and tries again at once what was given up. */
  public synchronized void settings(ShimConfig newConfig) {
    config = newConfig;
    refreshes++;
    signal();
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  public void signal() {
    if (!signalled) {
      signalled = true;
      LockSupport.unpark(thread);
    }
  }

  /** Whether the thread has not ended; for tests. */
  boolean runs() {
    return thread.isAlive();
  }

  /** Has the thread, the conversation and the sidecar end, and waits for that a few seconds at most. */
  public void stop() {
    conversation.stop();
    LockSupport.unpark(thread);
    Uninterruptibles.joinUninterruptibly(thread, STOP_TIMEOUT_MS, TimeUnit.MILLISECONDS);
  }

  @Override
  public void run() {
    try {
      while (!conversation.isStopping()) {
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
      int refreshed;
      ShimConfig now;
      synchronized (this) {
        refreshed = refreshes;
        now = config;
      }
      if (conversed == null || refreshed != conversedRefreshes) {
        conversedRefreshes = refreshed;
        turnTo(now);
      }
      if (now.mode == ShimConfig.Mode.OFF) {
        return LONGEST_PAUSE_MS;
      }
      if (!conversation.isOpen() && !connect(now)) {
        return CONNECT_PAUSE_MS;
      }
      long cpu = THREADS.getCurrentThreadCpuTime();
      conversation.tick(now, refreshed, this::answered);
      metrics.add(ShimMetrics.Counter.LINK_CPU_NANOS, THREADS.getCurrentThreadCpuTime() - cpu);
      return pauseMs(now);
    } catch (Throwable t) {
      return failed(t);
    }
  }

  /** From one tick to the next when nothing happens: often enough for the lease and for looks for starvation. */
  private static long pauseMs(ShimConfig config) {
    int guardMs = config.starvationMs == 0 ? Integer.MAX_VALUE : config.starvationMs / 4;
    return Math.min(config.leaseMs / 4, Math.max(guardMs, config.tickMs));
  }

  private void turnTo(ShimConfig now) {
    boolean modeChanged = conversed != null && conversed.mode != now.mode;
    boolean leaseChanged = conversed != null && conversed.leaseMs != now.leaseMs;
    conversed = now;
    failures = 0;
    states.refreshed();
    source.retry();
    if (modeChanged || leaseChanged) {
      // another mode: what the engine assumes is void; another lease: calls have another time-out
      hangUp("mode or lease-ms changed");
    }
    if (now.mode == ShimConfig.Mode.OFF) {
      // nobody is asked any more, so that nobody would say that it is mended
      conversation.refused(null);
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
    conversingSinceNanos = System.nanoTime();
    conversation.begin(engine);
    return true;
  }

  private void answered() {
    if (System.nanoTime() - conversingSinceNanos > STEADY_NANOS) {
      failures = 0;
      states.steady();
    }
    source.answered();
  }

  private long failed(Throwable t) {
    lease.release();
    if (conversation.isStopping()) {
      return 0;
    }
    boolean talked = conversation.isOpen();
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
    failures = Math.min(failures + 1, FAILURES_COUNTED);
    return Math.min(FIRST_PAUSE_MS << failures - 1, LONGEST_PAUSE_MS);
  }

  private void hangUp(String reason) {
    lease.release();
    states.leaseLost(reason);
    conversation.end();
  }

  /** Waits until {@code pauseMs} after {@code begin}; in a conversation a signal shortens that to the tick. */
  private void pause(long begin, long pauseMs) {
    int before = conversedRefreshes;
    long least = begin + (conversation.isOpen() ? TimeUnit.MILLISECONDS.toNanos(conversation.leastMs(config)) : 0);
    long most = begin + TimeUnit.MILLISECONDS.toNanos(pauseMs);
    while (!conversation.isStopping()) {
      long time = System.nanoTime();
      long end = signalled && conversation.isOpen() || before != refreshes ? least : most;
      if (end - time <= 0) {
        break;
      }
      LockSupport.parkNanos(this, end - time);
    }
    signalled = false;
  }

  private void end() {
    try {
      hangUp("the scheduler stops");
    } catch (Throwable t) {
      LOG.warn("Treadle's link did not end cleanly", t);
    }
    try {
      source.stop();
    } catch (Throwable t) {
      LOG.warn("Treadle's sidecar did not end cleanly", t);
    }
  }
}

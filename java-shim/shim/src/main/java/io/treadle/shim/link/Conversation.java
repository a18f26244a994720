package io.treadle.shim.link;

import io.treadle.shim.Rate;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.hadoop.util.Time;

/**
 * One connection to an engine, and the epoch that goes with it: begins with a snapshot, and ends with the first answer
 * that is not as it should be.
 */
final class Conversation {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private final Engine engine;
  private final long epoch;
  private final Mirror mirror;
  private final ShimMetrics metrics;
  private final LongSupplier decisionMaxMs;
  /** The next answer, which another thread waits for; null if nobody does. */
  private Errand<Answer> ahead;
  private final Rate resends;
  /** Since when the engine has only said that it decides; 0 if it has not. */
  private long busySinceNanos;

  /**
   * One that begins.
   *
   * @param decisionMaxMs how long one of several engines may decide; 0 for the only one
   * @param resends how often the engine may ask for a snapshot
   */
  Conversation(Engine engine, long epoch, Mirror mirror, ShimMetrics metrics, LongSupplier decisionMaxMs,
      Rate resends) {
    this.decisionMaxMs = decisionMaxMs;
    this.resends = resends;
    this.engine = engine;
    this.epoch = epoch;
    this.mirror = mirror;
    this.metrics = metrics;
    mirror.start(epoch);
  }

  /**
   * Sends the engine what changed and waits for its answer; or waits for the one that was asked for {@link #askAhead
   * ahead}.
   *
   * @param options of the frames, unless they have been sent
   * @param most the most proposals that any frame allowed
   * @return the answer to the last frame, without proposals if the engine lost track: the next frames are a snapshot
   * @throws IOException if there is no answer, a late or malformed one, or one to something else
   */
  Answer exchange(FrameOptions options, int most) throws IOException {
    Question question = ahead == null ? question(options, most) : null;
    long begin = System.nanoTime();
    Answer answer = question == null ? askedAhead() : question.ask(false);
    metrics.add(ShimMetrics.Counter.ANSWER_WAIT_NANOS, System.nanoTime() - begin);
    if (answer.proposals.resend()) {
      resend();
      return answer;
    }
    refuseOthers(answer.proposals);
    checkBusy(answer.proposals);
    return answer;
  }

  private Answer askedAhead() throws IOException {
    Answer answer;
    try {
      answer = ahead.await();
    } catch (InterruptedException e) {
      throw new InterruptedIOException("interrupted while waiting for the sidecar");
    }
    ahead = null;
    return answer;
  }

  /**
   * Has another thread send the engine what changed and wait for the answer, which the next {@link #exchange} returns.
   * For one engine alone. Nothing is asked if a snapshot is due: what the answer before it names would be void.
   *
   * @param most the most proposals that any frame allowed
   * @param onFailure called at once if there will be no answer, on the other thread
   */
  void askAhead(FrameOptions options, int most, Executor threads, Runnable onFailure) {
    Question question = question(options.withoutSnapshot(), most);
    if (question != null) {
      ahead = Errand.begin(threads, () -> counted(question), onFailure);
    }
  }

  private Answer counted(Question question) throws IOException {
    long cpu = THREADS.getCurrentThreadCpuTime();
    try {
      return question.ask(true);
    } finally {
      metrics.add(ShimMetrics.Counter.LINK_CPU_NANOS, THREADS.getCurrentThreadCpuTime() - cpu);
    }
  }

  /** What changed, as frames; null if that is a snapshot and there must not be one. */
  private Question question(FrameOptions options, int most) {
    long begin = System.nanoTime();
    List<byte[]> frames = mirror.frames(Time.now(), Time.monotonicNow(), options);
    long writing = System.nanoTime() - begin;
    metrics.add(ShimMetrics.Counter.FRAME_NANOS, writing);
    // what one of several decided on an earlier frame is as long as that one allowed
    return frames.isEmpty() ? null : new Question(engine, metrics, epoch, frames,
        mirror.sequence() - frames.size() + 1, options, decisionMaxMs.getAsLong() > 0 ? most : options.limit, writing);
  }

  /** What belongs to several engines on one cluster. */
  private void refuseOthers(ProposalFrame answer) throws IOException {
    boolean several = decisionMaxMs.getAsLong() > 0;
    if (answer.busy() && !several) {
      throw new IOException("the engine answered BUSY, which is for several engines: this shim waits for each answer");
    }
    if (answer.hasTransactions() && !several) {
      throw new IOException("the engine answered with transactions, which are for several engines: of one each proposal"
          + " is committed for itself");
    }
    if (answer.size() > 0 && several && !mirror.mayBaseOn(answer.base())) {
      throw new IOException("the engine decided on frame " + answer.base() + ", which is too old to be acted upon");
    }
    if (answer.size() > 0 && !several && answer.base() != answer.sequence()) {
      throw new IOException("the engine decided on frame " + answer.base() + " instead of frame " + answer.sequence());
    }
  }

  private void checkBusy(ProposalFrame answer) throws IOException {
    if (!answer.busy()) {
      busySinceNanos = 0;
      return;
    }
    long nanos = System.nanoTime();
    busySinceNanos = busySinceNanos == 0 ? nanos : busySinceNanos;
    if (TimeUnit.NANOSECONDS.toMillis(nanos - busySinceNanos) > decisionMaxMs.getAsLong()) {
      throw new IOException("the engine has decided for longer than " + decisionMaxMs.getAsLong()
          + " ms (decision_max_s)");
    }
  }

  private void resend() throws IOException {
    if (!resends.take()) {
      throw new IOException("the engine asks for snapshots too often: it does not understand what it is sent, or fails");
    }
    mirror.snapshotNeeded();
  }

  /** Nobody waits for an answer any more. */
  void close() {
    if (ahead != null) {
      ahead.abandon();
    }
    engine.close();
  }
}

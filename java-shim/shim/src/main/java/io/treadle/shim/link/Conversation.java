package io.treadle.shim.link;

import io.treadle.shim.Rate;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.concurrent.Executor;
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
  /** The next answer, which another thread waits for; null if nobody does. */
  private Errand<Answer> ahead;
  private final Rate resends;

  /**
   * One that begins.
   *
   * @param resends how often the engine may ask for a snapshot
   */
  Conversation(Engine engine, long epoch, Mirror mirror, ShimMetrics metrics, Rate resends) {
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
   * @return the answer to the last frame, without proposals if the engine lost track: the next frames are a snapshot
   * @throws IOException if there is no answer, a late or malformed one, or one to something else
   */
  Answer exchange(FrameOptions options) throws IOException {
    Question question = ahead == null ? question(options) : null;
    long begin = System.nanoTime();
    Answer answer = question == null ? askedAhead() : question.ask(false);
    metrics.add(ShimMetrics.Counter.ANSWER_WAIT_NANOS, System.nanoTime() - begin);
    if (answer.proposals.resend()) {
      resend();
      return answer;
    }
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
   * Nothing is asked if a snapshot is due: what the answer before it names would be void.
   *
   * @param onFailure called at once if there will be no answer, on the other thread
   */
  void askAhead(FrameOptions options, Executor threads, Runnable onFailure) {
    Question question = question(options.withoutSnapshot());
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
  private Question question(FrameOptions options) {
    long begin = System.nanoTime();
    long writtenMs = Time.monotonicNow();
    List<byte[]> frames = mirror.frames(Time.now(), writtenMs, options);
    long writing = System.nanoTime() - begin;
    metrics.add(ShimMetrics.Counter.FRAME_NANOS, writing);
    return frames.isEmpty() ? null : new Question(engine, metrics, epoch, frames,
        mirror.sequence() - frames.size() + 1, options, writtenMs, writing);
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

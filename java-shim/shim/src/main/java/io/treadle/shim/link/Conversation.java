package io.treadle.shim.link;

import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.MalformedReplyException;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.hadoop.util.Time;

/**
 * One connection to an engine, and the epoch that goes with it: begins with a snapshot, and ends with the first answer
 * that is not as it should be.
 */
final class Conversation {
  /** An engine that asks for a snapshot so often in a row does not understand us. */
  private static final int RESENDS = 5;

  private final Engine engine;
  private final long epoch;
  private final Mirror mirror;
  private final ShimMetrics metrics;
  private final LongSupplier decisionMaxMs;
  private int resends;
  /** Since when the engine has only said that it decides; 0 if it has not. */
  private long busySinceNanos;

  /** {@code decisionMaxMs}: how long one of several engines may decide; 0 for the only one. */
  Conversation(Engine engine, long epoch, Mirror mirror, ShimMetrics metrics, LongSupplier decisionMaxMs) {
    this.decisionMaxMs = decisionMaxMs;
    this.engine = engine;
    this.epoch = epoch;
    this.mirror = mirror;
    this.metrics = metrics;
    mirror.start(epoch);
  }

  /**
   * Tells the engine what changed and waits for its answer.
   *
   * @param most the most proposals that any frame allowed
   * @return the answer to the last frame, or null if the engine lost track: the next frames are a snapshot
   * @throws IOException if there is no answer, a late one, or one to something else
   * @throws MalformedReplyException if an answer is no proposal frame
   */
  ProposalFrame exchange(FrameOptions options, int most) throws IOException, MalformedReplyException {
    long begin = System.nanoTime();
    List<byte[]> frames = mirror.frames(Time.now(), Time.monotonicNow(), options);
    metrics.framesWritten(System.nanoTime() - begin);
    long sequence = mirror.sequence() - frames.size();
    ProposalFrame answer = null;
    for (byte[] frame : frames) {
      sequence++;
      // what one of several decided on an earlier frame is as long as that one allowed
      answer = ask(frame, sequence, options, decisionMaxMs.getAsLong() > 0 ? most : options.limit);
      if (answer.resend()) {
        resend();
        return null;
      }
    }
    if (answer == null) {
      throw new IllegalStateException("the mirror wrote no frame");
    }
    refuseOthers(answer);
    checkBusy(answer);
    resends = 0;
    return answer;
  }

  private ProposalFrame ask(byte[] frame, long sequence, FrameOptions options, int maxRows)
      throws IOException, MalformedReplyException {
    long begin = System.nanoTime();
    byte[] reply = engine.decide(frame);
    long nanos = System.nanoTime() - begin;
    metrics.answered(frame.length, reply == null ? 0 : reply.length, nanos);
    if (TimeUnit.NANOSECONDS.toMillis(nanos) > options.leaseMs) {
      throw new IOException("an answer later than the lease of " + options.leaseMs + " ms");
    }
    ProposalFrame answer = ProposalFrame.parse(reply, maxRows);
    if (answer.epoch() != epoch || answer.sequence() != sequence) {
      throw new IOException("an answer to frame " + answer.sequence() + " of epoch " + answer.epoch()
          + " instead of frame "
          + sequence + " of epoch " + epoch);
    }
    return answer;
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
    resends++;
    if (resends > RESENDS) {
      throw new IOException("the engine asked for a snapshot " + resends + " times in a row");
    }
    mirror.snapshotNeeded();
  }

  void close() {
    engine.close();
  }
}

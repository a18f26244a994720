package io.treadle.shim.link;

import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Frames that were written together, all but the last of which say that more follows, to be asked about once. */
final class Question {
  final FrameOptions options;
  private final Engine engine;
  private final ShimMetrics metrics;
  private final long epoch;
  private final List<byte[]> frames;
  private final long firstSequence;
  private final long writtenMs;
  private final long writingNanos;

  /**
   * A question of an epoch.
   *
   * @param frames at least one
   * @param firstSequence the number of the first of them
   * @param options what they say
   * @param writtenMs when they were written, {@code Time.monotonicNow()}, milliseconds
   * @param writingNanos how long it took to write them
   */
  Question(Engine engine, ShimMetrics metrics, long epoch, List<byte[]> frames, long firstSequence,
      FrameOptions options, long writtenMs, long writingNanos) {
    this.engine = engine;
    this.metrics = metrics;
    this.epoch = epoch;
    this.frames = frames;
    this.firstSequence = firstSequence;
    this.options = options;
    this.writtenMs = writtenMs;
    this.writingNanos = writingNanos;
  }

  /** Sends one frame after the other and waits for each answer; answers the last, or the first that says RESEND. */
  Answer ask(boolean ahead) throws IOException {
    long begin = System.nanoTime();
    ProposalFrame answer = null;
    long sequence = firstSequence;
    for (byte[] frame : frames) {
      answer = ask(frame, sequence);
      if (answer.resend()) {
        break;
      }
      sequence++;
    }
    if (answer == null) {
      throw new IllegalStateException("the mirror wrote no frame");
    }
    long came = System.nanoTime();
    return new Answer(answer, options, writtenMs, writingNanos + came - begin, came, ahead);
  }

  private ProposalFrame ask(byte[] frame, long sequence) throws IOException {
    long begin = System.nanoTime();
    byte[] reply = engine.decide(frame);
    long nanos = System.nanoTime() - begin;
    metrics.answered(frame.length, reply == null ? 0 : reply.length, nanos);
    if (TimeUnit.NANOSECONDS.toMillis(nanos) > options.config.leaseMs) {
      throw new IOException("an answer later than the lease of " + options.config.leaseMs + " ms");
    }
    ProposalFrame answer = ProposalFrame.parse(reply, options.limit);
    if (answer.epoch() != epoch || answer.sequence() != sequence) {
      throw new IOException("an answer to frame " + answer.sequence() + " of epoch " + answer.epoch()
          + " instead of frame "
          + sequence + " of epoch " + epoch);
    }
    return answer;
  }
}

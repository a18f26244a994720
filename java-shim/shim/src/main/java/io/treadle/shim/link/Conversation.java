// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Rate;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.util.Time;

/**
 * One connection to an engine, and the epoch that goes with it: begins with a snapshot, and ends with the first answer
 * that is not as it should be.
 */
final class Conversation {
  private final Engine engine;
  private final long epoch;
  private final Mirror mirror;
  private final ShimMetrics metrics;
  private final Rate resends;
  private final AtomicBoolean closed = new AtomicBoolean();

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
   * Sends the engine what changed, one frame after the other, and waits for each answer.
   *
   * @return the answer to the last frame, or the first by which the engine lost track: the next frames are a snapshot
   * @throws IOException if there is no answer, a late or malformed one, or one to something else
   */
  ProposalFrame exchange(FrameOptions options) throws IOException {
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
          + " instead of frame " + sequence + " of epoch " + epoch);
    }
    return answer;
  }

  private void resend() throws IOException {
    if (!resends.take()) {
      throw new IOException("the engine asks for snapshots too often: it does not understand what it is sent,"
          + " or fails");
    }
    mirror.snapshotNeeded();
  }

  /** Nobody waits for an answer any more; one who does gets an exception. Any thread; does nothing the second time. */
  void close() {
    if (!closed.getAndSet(true)) {
      engine.close();
    }
  }
}

package io.treadle.shim.link;

import io.treadle.shim.mirror.FrameOptions;
import io.treadle.shim.wire.ProposalFrame;

/** What an engine has answered, to what, and when. */
final class Answer {
  /** Its proposals; null if the engine lost track. */
  final ProposalFrame proposals;
  /** What it was asked with. */
  final FrameOptions options;
  /** When those frames were written, {@code Time.monotonicNow()}, milliseconds. */
  final long writtenMs;
  /** How long it took to write the frames and to get the answer. */
  final long exchangeNanos;
  /** When it was there, by {@code System.nanoTime()}. */
  final long cameNanos;
  /** Whether it was asked for while the answer before it had not been committed. */
  final boolean askedAhead;

  Answer(ProposalFrame proposals, FrameOptions options, long writtenMs, long exchangeNanos, long cameNanos,
      boolean askedAhead) {
    this.proposals = proposals;
    this.options = options;
    this.writtenMs = writtenMs;
    this.exchangeNanos = exchangeNanos;
    this.cameNanos = cameNanos;
    this.askedAhead = askedAhead;
  }
}

package io.treadle.shim.link;

import java.util.concurrent.TimeUnit;

/**
 * How many proposals an answer may hold, so that committing them takes a bounded time: while the link commits it cannot
 * renew the lease, and what was true of the cluster when the engine decided grows old. Used by the link thread only.
 */
final class AnswerLimit {
  /** What committing one answer should take. */
  private static final long COMMIT_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  /** So few that even a slow machine commits them well within a lease. */
  private static final int LEAST = 64;
  /** The weight of the newest answer in the running mean. */
  private static final double NEWEST = 0.3;

  private double nanosPerProposal = 100_000;

  /** The limit of the next answer; {@code most} is what the administrator allows. */
  int next(int most) {
    return (int) Math.min(most, Math.max(LEAST, COMMIT_NANOS / nanosPerProposal));
  }

  /** An answer was dealt with. One of a few proposals tells of the locks it met rather than of what they cost. */
  void committed(int proposals, long wallNanos) {
    if (proposals >= LEAST / 2) {
      nanosPerProposal += NEWEST * ((double) wallNanos / proposals - nanosPerProposal);
    }
  }
}

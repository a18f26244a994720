// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.util.Collections;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.thirdparty.com.google.common.collect.EvictingQueue;

/**
 * The maximum number of proposals in an answer, so that committing them takes a bounded time: while the link commits it
 * cannot renew the lease, and the engine's view of the cluster becomes outdated. Used by the link thread only.
 *
 * <p>Committing an answer may take as long as it takes to get one, within {@link #LEAST_COMMIT_NANOS} and a quarter of
 * the lease. On a fully loaded machine each exchange waits for a processor several times, and with shorter answers the
 * link would do little but wait.
 */
final class AnswerLimit {
  private static final long LEAST_COMMIT_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  /** So few that even a slow machine commits them well within a lease. */
  private static final int LEAST = 64;
  private static final long FIRST_GUESS_NANOS = 100_000;
  /** So many answers are remembered; the median of them leaves out a commit that met a lock or a pause of the JVM. */
  private static final int REMEMBERED = 5;

  private final Queue<Long> perProposal = EvictingQueue.create(REMEMBERED);
  private final Queue<Long> exchanges = EvictingQueue.create(REMEMBERED);

  AnswerLimit() {
    perProposal.addAll(Collections.nCopies(REMEMBERED, FIRST_GUESS_NANOS));
    exchanges.addAll(Collections.nCopies(REMEMBERED, 0L));
  }

  /**
   * The limit of the next answer.
   *
   * @param most the administrator's limit
   * @param leaseMs how long a lease lasts, milliseconds
   */
  int next(int most, long leaseMs) {
    long leaseNanos = TimeUnit.MILLISECONDS.toNanos(leaseMs);
    long[] costs = sorted(perProposal);
    long commit = Math.max(LEAST_COMMIT_NANOS, Math.min(leaseNanos / 4, sorted(exchanges)[REMEMBERED / 2]));
    long usual = commit / costs[REMEMBERED / 2];
    // and if each commit took as long as the slowest recent one, the lease would still last
    long slow = leaseNanos / 2 / costs[REMEMBERED - 1];
    return (int) Math.min(most, Math.max(LEAST, Math.min(usual, slow)));
  }

  /** Records the time until an answer arrived. */
  void answered(long wallNanos) {
    exchanges.add(wallNanos);
  }

  /** Records the processing time of an answer. One of a few proposals measures locks rather than commits. */
  void committed(int proposals, long wallNanos) {
    if (proposals >= LEAST / 2) {
      perProposal.add(Math.max(1, wallNanos / proposals));
    }
  }

  private static long[] sorted(Queue<Long> values) {
    return values.stream().mapToLong(Long::longValue).sorted().toArray();
  }
}

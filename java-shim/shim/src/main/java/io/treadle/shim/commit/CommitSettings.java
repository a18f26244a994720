// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.function.LongSupplier;

/** What an administrator may set about committing. Immutable. */
public final class CommitSettings {
  final int batchSize;
  final long nodeStaleMs;
  private final LongSupplier monotonicMs;

  /**
   * Makes settings.
   *
   * @param batchSize how many proposals are committed under one hold of the scheduler's write lock, at least 1
   * @param nodeStaleMs how old a node's last heartbeat may be, milliseconds
   * @param monotonicMs the clock that heartbeats are measured by ({@code Time::monotonicNow}), milliseconds
   */
  public CommitSettings(int batchSize, long nodeStaleMs, LongSupplier monotonicMs) {
    this.batchSize = batchSize;
    this.nodeStaleMs = nodeStaleMs;
    this.monotonicMs = monotonicMs;
  }

  long nowMs() {
    return monotonicMs.getAsLong();
  }
}

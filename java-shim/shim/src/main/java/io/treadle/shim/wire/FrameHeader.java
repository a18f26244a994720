// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

/** The header's fields that are the same in all parts of a frame. */
public final class FrameHeader {
  final long epoch;
  final boolean snapshot;
  final boolean observe;
  final long rmTimeMs;
  final int configuration;
  final int limit;

  /**
   * A header.
   *
   * @param epoch one per scheduler instance and engine connection
   * @param snapshot the engine forgets everything first
   * @param observe nothing of the answer will be committed
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param configuration raised by each -refreshQueues
   * @param limit the most proposals that the answer may hold
   */
  public FrameHeader(long epoch, boolean snapshot, boolean observe, long rmTimeMs, int configuration, int limit) {
    this.epoch = epoch;
    this.snapshot = snapshot;
    this.observe = observe;
    this.rmTimeMs = rmTimeMs;
    this.configuration = configuration;
    this.limit = limit;
  }
}

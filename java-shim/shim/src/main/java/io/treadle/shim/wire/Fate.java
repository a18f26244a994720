// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

/**
 * The fate of a proposal: committed, or the reason why not. The schema has its code on the wire
 * (docs/wire-format.md), and more fates, which a sidecar with several engines gives to them.
 */
public enum Fate {
  COMMITTED,
  UNKNOWN_APPLICATION,
  FINISHED_ATTEMPT,
  STOPPED_ATTEMPT,
  INACTIVE_APPLICATION,
  UNKNOWN_REQUEST,
  NO_PENDING_ASK,
  UNKNOWN_NODE,
  NODE_NOT_RUNNING,
  NODE_STALE,
  NODE_RESERVED,
  BLACKLISTED,
  WRONG_PARTITION,
  LOCALITY,
  CONSTRAINT,
  CONTAINER_UPDATE,
  NODE_FULL,
  QUEUE_MAXIMUM,
  USER_LIMIT,
  DUPLICATE,
  OUT_OF_RANGE,
  OVER_BATCH,
  LEASE_LOST,
  NOT_READY,
  STALE_STATE,
  INTERNAL_ERROR,
  OBSERVED,
  NEGATIVE,
  /** Another row of the transaction cannot be committed, or it is none that can be. */
  TRANSACTION;

  /** The code on the wire. */
  public final int code = WireSchema.fate(name());

  /** Whether the proposal was turned down: neither committed nor only observed. */
  public boolean isRejection() {
    return this != COMMITTED && this != OBSERVED;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

/**
 * The fate of a proposal: committed, or the reason why not. The schema has its code on the wire
 * (docs/wire-format.md).
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
  /** Of several engines: the application is another's. */
  NOT_OWNER,
  /** Of several engines: others have committed on the node since the base frame, and it minds. */
  CHANGED,
  /** Another row of the transaction cannot be committed, or it is none that can be. */
  TRANSACTION,
  /** Of several engines: the applications of the engine would use more of the partition than it may claim. */
  CLAIM;

  private final int code = WireSchema.fate(name());

  /** The code on the wire. */
  public int code() {
    return code;
  }

  /** Whether a sidecar with several engines gives it to them; the shim never does. */
  public boolean isOfSeveralEngines() {
    return this == NOT_OWNER || this == CHANGED || this == CLAIM;
  }

  /** Whether the proposal was turned down: neither committed nor only observed. */
  public boolean isRejection() {
    return this != COMMITTED && this != OBSERVED;
  }
}

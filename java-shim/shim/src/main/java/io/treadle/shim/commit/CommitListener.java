// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.wire.Fate;

/**
 * Called with what a commit meets besides the fates. Called with the scheduler's lock held: return at once, never
 * throw.
 */
public interface CommitListener {
  /** Hears nothing. */
  CommitListener NONE = new CommitListener() { };

  /** An exception became {@link Fate#INTERNAL_ERROR}; it is already in the log. */
  default void internalError(Throwable error) { }

  /** A limit turned a proposal down: {@code limit} is the path of the queue whose limit it is. */
  default void limitReached(Fate fate, String limit) { }

  /** A part of a transaction was committed and the rest refused: it was taken back before its AM heard of it. */
  default void transactionTakenBack() { }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** What the link does with answers. Used by the link thread only. */
public interface AnswerHandler {
  /**
   * Why proposals must not be committed now although the mode is {@code enforce}, in words for an administrator that
   * name the key to change, or null.
   */
  String refusal();

  /** Whether the RM hands out containers yet: not while it recovers. */
  boolean ready();

  /** The engine has just got the lease: native reservations go, limits are computed afresh. */
  void entered();

  /** Whether the engine has lost the lease because it places nothing: one reason of those for a {@link #refusal}. */
  boolean starving();

  /**
   * Takes what the engine says of itself; {@link #refusal} depends on its policy.
   *
   * @param overridesGuarantees whether it shares the cluster otherwise than the queues' capacities say
   * @param overridesOrder whether it serves the applications of a queue otherwise than the queue's own order says
   * @param diagnostics what applications should know, by their index
   */
  default void status(boolean overridesGuarantees, boolean overridesOrder, Map<Integer, String> diagnostics,
      Directory directory) {
  }

  /**
   * Commits an answer's proposals, each only while {@code mayCommit}, after what the shim places by itself.
   *
   * @param isOver whether the time for that is over; a batch that has begun is finished
   * @return how many proposals were looked at
   * @throws OwnFailureException if every proposal ended in an exception
   */
  int commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit, BooleanSupplier isOver)
      throws OwnFailureException;

  /** Looks at an answer's proposals as {@code observe_only} does; changes nothing. */
  void observe(ProposalFrame answer, Directory directory, int limit);

  /** Something failed on the ResourceManager's side, through no fault of the engine's. */
  final class OwnFailureException extends Exception {
    private static final long serialVersionUID = 1L;

    /** With what failed, in words. */
    public OwnFailureException(String message) {
      super(message);
    }
  }
}

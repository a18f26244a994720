package io.treadle.shim.link;

import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;

/** What the link does with answers. Used by the link thread only. */
public interface DecisionStage {
  /**
   * Why proposals must not be committed now although the mode is {@code enforce}, in words for an administrator that
   * name the key to change, or null.
   */
  String refusal();

  /** The engine has said whether its policy overrides the guarantees of queues; {@link #refusal} depends on it. */
  void overrides(boolean guarantees, boolean order);

  /** Whether the RM hands out containers yet: not while it recovers. */
  boolean ready();

  /** The engine has just got the lease: native reservations go, limits are computed afresh. */
  void entered();

  /** Commits an answer's proposals, each only while {@code mayCommit}, after what the shim places by itself. */
  void commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit);

  /** Looks at an answer's proposals as {@code observe_only} does; changes nothing. */
  void observe(ProposalFrame answer, Directory directory, int limit);
}

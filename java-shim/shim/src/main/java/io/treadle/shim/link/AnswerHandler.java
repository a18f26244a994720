package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.commit.CommitTime;
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

  /** The engine has said whether its policy overrides the guarantees of queues; {@link #refusal} depends on it. */
  void overrides(boolean guarantees, boolean order);

  /** Whether the RM hands out containers yet: not while it recovers. */
  boolean ready();

  /** The engine has just got the lease: native reservations go, limits are computed afresh. */
  void entered();

  /** Whether the engine has lost the lease because it places nothing: one reason of those for a {@link #refusal}. */
  boolean starving();

  /**
   * The engine has said which engines there are; only the first one is listened to.
   *
   * @param said an array, or a missing node for one engine; null if it says what it said before
   */
  default void engines(JsonNode said) {
  }

  /** How long one of several engines may answer that it decides, milliseconds; 0 for the only one, which must not. */
  default long decisionMaxMs() {
    return 0;
  }

  /** How many proposals an answer may hold in any case: what is committed together must not be cut. */
  default int proposalsLeast() {
    return 0;
  }

  /** The engine reports that it is deciding: it is not idle. */
  default void busy() {
  }

  /** What the engine is called, empty for the only one. Any thread. */
  default String engine() {
    return "";
  }

  /** One of several engines has said which applications another should serve, by their index, and why. */
  default void givenUp(Map<Integer, String> said, Directory directory) {
  }

  /** The engine has said what it waits for on purpose, empty for nothing. */
  void waitsFor(String what);

  /** The engine has said what applications should know, by their index; whom it does not name has nothing to know. */
  default void diagnostics(Map<Integer, String> said, Directory directory) {
  }

  /**
   * Commits an answer's proposals, each only while {@code mayCommit}, after what the shim places by itself.
   *
   * @param time how long that may take
   * @return what failed if every proposal ended in an exception on our side; else null
   */
  String commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit, CommitTime time);

  /** Looks at an answer's proposals as {@code observe_only} does; changes nothing. */
  void observe(ProposalFrame answer, Directory directory, int limit);
}

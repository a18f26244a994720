// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import java.util.EnumMap;
import java.util.Map;

/**
 * The budget of one user's applications in frames: amounts, by {@link Cap}, and the rate of changes. The rate is
 * counted in steps: checking a name is one, a request key more, and new ones most.
 */
final class UserBudget {
  /** Steps of a request key that is looked at; it has locks of its own. */
  static final int KEY = 10;
  /** Steps of a row that is written. */
  static final int ROW = 50;
  /** Steps of a text that no frame has had. */
  static final int NAME = 2000;
  /** So many bytes of a request that is read for its constraint are a step. */
  static final int BYTES = 16;
  private static final long STEPS_PER_MS = 400;
  private static final long MOST = 10_000;

  private final Map<Cap, Integer> standing = new EnumMap<>(Cap.class);
  private final int ofUser;
  private int applications;
  private int texts;
  private int kept;
  private long steps = MOST;
  private long filledMs = Long.MAX_VALUE;

  /** The applications of the user may have {@code ofUser} of each {@link Cap} together, or fewer. */
  UserBudget(int ofUser) {
    this.ofUser = ofUser;
  }

  /** An application of the user came, or went; returns how many there are. */
  int applications(int change) {
    applications += change;
    return applications;
  }

  /**
   * So many more of the texts that were sent are in use by applications of the user, or fewer; returns whether one more
   * may be sent that can be left out.
   */
  boolean hasTexts(int change) {
    texts += change;
    return texts < ofUser;
  }

  /** So many more request keys without requests keep their indices, or fewer; returns whether one more may. */
  boolean keeps(int change) {
    kept += change;
    return kept < ofUser;
  }

  /** How much of something an application may have in frames that has {@code own} there now. */
  int room(Cap cap, int own) {
    return Math.max(0, Math.min(cap.ofApplication, Math.min(cap.ofUser, ofUser) - standing.getOrDefault(cap, 0) + own));
  }

  void stands(Cap cap, int change) {
    standing.merge(cap, change, Integer::sum);
  }

  /** Whether it is worthwhile to review an application: some of its news could be written. */
  boolean isReady(long nowMs) {
    steps = Math.min(MOST, steps + Math.max(0, nowMs - filledMs) * STEPS_PER_MS);
    filledMs = nowMs;
    return steps >= MOST / 4;
  }

  /** Whether nothing new may be written for now. */
  boolean isSpent() {
    return steps <= 0;
  }

  void spend(long count) {
    steps -= count;
  }

  /** Allows as much as can be at once: what a snapshot cost is not counted. */
  void refill() {
    steps = MOST;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import java.util.EnumMap;
import java.util.Map;

/**
 * What the applications of one user may put into frames: how much stands there, by {@link Cap}, and how fast it
 * changes. The latter is counted in steps: a request key or a name that is looked at is one, and what is new costs
 * more.
 */
final class UserBudget {
  /** Steps of a row that is written. */
  static final int ROW = 50;
  /** Steps of a text that no frame has had. */
  static final int NAME = 2000;
  private static final long STEPS_PER_MS = 400;
  private static final long MOST = 40_000;

  private final Map<Cap, Integer> standing = new EnumMap<>(Cap.class);
  private final int ofUser;
  private int applications;
  private long steps = MOST;
  private long filledMs = Long.MAX_VALUE;

  /** Of each {@link Cap} all applications of the user may have {@code ofUser}. */
  UserBudget(int ofUser) {
    this.ofUser = ofUser;
  }

  /** An application of the user came, or went. */
  void applications(int change) {
    applications += change;
  }

  /** How much of something an application may have in frames that has {@code own} there now. */
  int room(Cap cap, int own) {
    return Math.max(0, Math.min(cap.ofApplication, ofUser - standing.getOrDefault(cap, 0) + own));
  }

  void stands(Cap cap, int change) {
    standing.merge(cap, change, Integer::sum);
  }

  /** Whether it is worth while to look at an application: some of what is new could be written. */
  boolean isReady(long nowMs) {
    fill(nowMs);
    return steps >= MOST / 2;
  }

  /** Whether nothing new may be written for now. */
  boolean isSpent() {
    return steps <= 0;
  }

  void spend(long count) {
    steps -= count;
  }

  /** Allows as much as can be at once. */
  void refill() {
    steps = MOST;
  }

  /** Whether nothing of it need be remembered. */
  boolean isIdle(long nowMs) {
    fill(nowMs);
    return applications == 0 && steps == MOST;
  }

  private void fill(long nowMs) {
    steps = Math.min(MOST, steps + Math.max(0, nowMs - filledMs) * STEPS_PER_MS);
    filledMs = nowMs;
  }
}

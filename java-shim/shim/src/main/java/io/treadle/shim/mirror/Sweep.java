// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

/** Says how many of a number of things to look at now, so that all are looked at once a period, in turns. */
final class Sweep {
  private final long periodMs;
  private long lastMs;
  private int next;

  Sweep(long periodMs) {
    this.periodMs = periodMs;
  }

  /** How many of {@code size} things are due now. */
  int due(int size, long nowMs) {
    long elapsedMs = Math.min(periodMs, Math.max(0, nowMs - lastMs));
    int due = periodMs <= 0 ? size : (int) (size * elapsedMs / periodMs);
    if (due > 0 || size == 0) {
      lastMs = nowMs;
    }
    return due;
  }

  /** The index of the next thing due, below {@code size}; {@code size} must not be 0. */
  int next(int size) {
    int index = next < size ? next : 0;
    next = index + 1;
    return index;
  }
}

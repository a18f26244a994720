// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.Map;
import java.util.TreeMap;

/** Counts placements without the engine, by reason. Any thread. */
final class Natives {
  /** The scheduler's settings refuse an engine; the reason follows. */
  static final String REFUSED = "refused: ";
  /** A test passes a commit request directly to the scheduler. */
  static final String BY_TEST = "by a test: ";
  /** With the handler placement-processor the ResourceManager's own processor places scheduling requests. */
  static final String BY_PROCESSOR = "by the placement processor: ";
  /** None of these; who committed it follows. */
  static final String UNEXPLAINED = "unexplained: ";

  private static final int CALLERS = 8;

  private final Map<String, Integer> counts = new TreeMap<>();

  synchronized void count(String reason) {
    counts.merge(reason, 1, Integer::sum);
  }

  synchronized Map<String, Integer> counts() {
    return new TreeMap<>(counts);
  }

  /** The reason by who called {@code tryCommit} on this thread; {@code state} says how things stood. */
  static String byCaller(String state) {
    StackTraceElement[] frames = Thread.currentThread().getStackTrace();
    int at = 0;
    while (!"tryCommit".equals(frames[at].getMethodName())) {
      at++;
    }
    String caller = text(frames[at + 1]);
    if (caller.startsWith("Test")) {
      return BY_TEST + caller;
    }
    if (caller.equals("CapacityScheduler#attemptAllocationOnNode")) {
      return BY_PROCESSOR + state;
    }
    StringBuilder said = new StringBuilder(UNEXPLAINED).append(state);
    for (int i = at + 1; i < Math.min(frames.length, at + 1 + CALLERS); i++) {
      said.append(" < ").append(text(frames[i]));
    }
    return said.toString();
  }

  private static String text(StackTraceElement frame) {
    return frame.getClassName().substring(frame.getClassName().lastIndexOf('.') + 1) + '#' + frame.getMethodName();
  }
}

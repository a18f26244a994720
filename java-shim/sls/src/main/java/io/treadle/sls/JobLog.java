// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.ArrayList;
import java.util.List;

/** What became of each job of a {@link Script}, as its application master saw it. */
final class JobLog {
  /**
   * Columns of {@link #rows()}: times since 1970; containers without its master's; those on nodes that it does not
   * allow; whether its stages had the priorities of a plan; of each container, when a task got it and when its master
   * heard of its end, in ms after the submission (-1 if never).
   */
  static final String[] COLUMNS =
      {"name", "submitted_ms", "first_container_ms", "ended_ms", "containers", "misplaced", "planned", "tasks_ms"};

  private final List<Object[]> rows = new ArrayList<>();

  /** A job has ended; the second of its times is -1 if it had no container. */
  synchronized void ended(String name, long[] timesMs, int misplaced, boolean planned, List<long[]> tasksMs) {
    rows.add(new Object[] {name, timesMs[0], timesMs[1], timesMs[2], tasksMs.size(), misplaced, planned, tasksMs});
  }

  /** A row for each job that has ended, in that order. */
  synchronized List<Object[]> rows() {
    return new ArrayList<>(rows);
  }
}

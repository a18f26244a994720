package io.treadle.sls;

import java.util.ArrayList;
import java.util.List;

/** What became of each job of a {@link Script}, as its application master saw it. */
final class JobLog {
  /**
   * Columns of {@link #rows()}: times since 1970; containers without its master's; those on nodes that it does not allow; whether
   * its stages had the priorities of a plan.
   */
  static final String[] COLUMNS =
      {"name", "submitted_ms", "first_container_ms", "ended_ms", "containers", "misplaced", "planned"};

  private final List<Object[]> rows = new ArrayList<>();

  /** A job has ended; the second of its times is -1 if it had no container. */
  synchronized void ended(String name, long[] timesMs, int containers, int misplaced, boolean planned) {
    rows.add(new Object[] {name, timesMs[0], timesMs[1], timesMs[2], containers, misplaced, planned});
  }

  /** A row for each job that has ended, in that order. */
  synchronized List<Object[]> rows() {
    return new ArrayList<>(rows);
  }
}

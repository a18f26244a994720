package io.treadle.sls;

import java.util.ArrayList;
import java.util.List;

/** What became of each job of a {@link Script}, as its application master saw it. */
final class JobLog {
  /** Columns of {@link #rows()}: times since 1970; containers without its master's; those on nodes that it does not allow. */
  static final String[] COLUMNS = {"name", "submitted_ms", "first_container_ms", "ended_ms", "containers", "misplaced"};

  private final List<Object[]> rows = new ArrayList<>();

  /** A job has ended; {@code firstContainerMs} is -1 if it had none. */
  synchronized void ended(String name, long submittedMs, long firstContainerMs, long endedMs, int containers,
      int misplaced) {
    rows.add(new Object[] {name, submittedMs, firstContainerMs, endedMs, containers, misplaced});
  }

  /** A row for each job that has ended, in that order. */
  synchronized List<Object[]> rows() {
    return new ArrayList<>(rows);
  }
}

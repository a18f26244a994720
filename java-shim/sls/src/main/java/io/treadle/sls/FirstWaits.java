// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;

/**
 * How long each application waits from an ask to the first container that is committed for it: first for its
 * application master, then for its tasks. Times are of this JVM, since a start.
 */
final class FirstWaits {
  /** Columns of {@link #rows()}; -1 where there is no request, or no commit. */
  static final String[] COLUMNS = {"queue", "master_asked_ms", "master_wait_ms", "tasks_asked_ms", "tasks_wait_ms"};
  private static final int MASTER = 0;
  private static final int TASKS = 1;
  private static final long NEVER = -1;

  private final long originNanos;
  private final Map<ApplicationAttemptId, Wait> waits = new ConcurrentHashMap<>();

  /** Waits since a time of {@link System#nanoTime}. */
  FirstWaits(long originNanos) {
    this.originNanos = originNanos;
  }

  private static final class Wait {
    private final String queue;
    private final long[] asked = {NEVER, NEVER};
    private final long[] served = {NEVER, NEVER};

    Wait(String queue) {
      this.queue = queue;
    }

    synchronized void ask(long nanos) {
      int stage = served[MASTER] == NEVER ? MASTER : TASKS;
      if (asked[stage] == NEVER) {
        asked[stage] = nanos;
      }
    }

    synchronized void serve(long nanos) {
      int stage = served[MASTER] == NEVER ? MASTER : TASKS;
      if (asked[stage] != NEVER && served[stage] == NEVER) {
        served[stage] = nanos;
      }
    }

    synchronized Object[] row(long originNanos) {
      return new Object[] {queue, ms(asked[MASTER], originNanos), ms(served[MASTER], asked[MASTER]),
          ms(asked[TASKS], originNanos), ms(served[TASKS], asked[TASKS])};
    }

    private static double ms(long nanos, long sinceNanos) {
      return nanos == NEVER ? NEVER : (nanos - sinceNanos) / 1e6;
    }
  }

  /** An application asks; does nothing if it asks for no container. */
  void asked(ApplicationAttemptId attempt, String queue, List<ResourceRequest> asks, long nanos) {
    if (asks != null && asks.stream().anyMatch(ask -> ask.getNumContainers() > 0)) {
      waits.computeIfAbsent(attempt, id -> new Wait(queue)).ask(nanos);
    }
  }

  /** A container of an application was committed. */
  void committed(ApplicationAttemptId attempt, long nanos) {
    Wait wait = waits.get(attempt);
    if (wait != null) {
      wait.serve(nanos);
    }
  }

  /** A row for each application, in no order. */
  List<Object[]> rows() {
    List<Object[]> rows = new ArrayList<>();
    waits.values().forEach(wait -> rows.add(wait.row(originNanos)));
    return rows;
  }
}

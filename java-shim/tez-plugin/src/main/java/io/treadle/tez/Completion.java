// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.DagBodies;
import java.io.DataOutputStream;
import java.io.IOException;
import org.apache.tez.common.counters.CounterGroup;
import org.apache.tez.common.counters.TaskCounter;
import org.apache.tez.common.counters.TezCounter;
import org.apache.tez.common.counters.TezCounters;
import org.apache.tez.dag.api.oldrecords.TaskAttemptState;
import org.apache.tez.dag.app.dag.TaskAttempt;
import org.apache.tez.dag.records.TezTaskAttemptID;

/** A task attempt that has ended. */
final class Completion {
  private static final int FAILED = 1;
  private static final int OTHER = 2;

  private final TaskAttempt attempt;

  Completion(TaskAttempt attempt) {
    this.attempt = attempt;
  }

  /** Writes it into a report (docs/tez-plugin.md). */
  void write(DataOutputStream out) throws IOException {
    TezTaskAttemptID id = attempt.getTaskAttemptID();
    int[] numbers = {id.getTaskID().getVertexID().getId(), id.getTaskID().getId(), id.getId()};
    TaskAttemptState state = attempt.getState();
    int unsuccessful = state == TaskAttemptState.FAILED ? FAILED : OTHER;
    int outcome = state == TaskAttemptState.SUCCEEDED ? DagBodies.TASK_SUCCEEDED : unsuccessful;
    long launchedMs = attempt.getLaunchTime();
    long endedMs = attempt.getFinishTime();
    long tookMs = launchedMs > 0 && endedMs >= launchedMs ? endedMs - launchedMs : -1;
    long inputBytes = -1;
    long cpuMs = -1;
    TezCounters counters = attempt.getCounters();
    if (counters != null) {
      // Only read: asking for a counter by name would add it to the DAG's counters.
      for (CounterGroup group : counters) {
        if (group.getName().equals(TaskCounter.class.getName())) {
          for (TezCounter counter : group) {
            if (isInput(counter.getName())) {
              inputBytes = Math.max(inputBytes, 0) + counter.getValue();
            } else if (counter.getName().equals(TaskCounter.CPU_MILLISECONDS.name())) {
              cpuMs = counter.getValue();
            }
          }
        }
      }
    }
    DagBodies.writeEnded(out, numbers, outcome, endedMs, tookMs, inputBytes, cpuMs);
  }

  private static boolean isInput(String counter) {
    return counter.equals(TaskCounter.SHUFFLE_BYTES.name())
        || counter.equals(TaskCounter.INPUT_SPLIT_LENGTH_BYTES.name());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import io.treadle.plans.Texts;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.BitSet;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.IntFunction;

/** The progress of one stage. Guarded by its table. */
final class StageStatistics {
  /** How an attempt of a task ended. */
  enum End { SUCCEEDED, FAILED, KILLED }

  private static final int PARENTS_MAX = 1_000;
  private static final int TASKS_MAX = 10_000_000;

  private final int number;
  private final String name;
  private final Set<Integer> parents = new TreeSet<>();
  /** The tasks that have succeeded; null once all have. */
  private BitSet done = new BitSet();
  private final DurationSketch durations = new DurationSketch();
  private int firstId;
  private int tasks;
  private boolean ran;
  private long inputBytes;
  private int failed;
  private int killed;
  private int repeated;
  private int speculative;
  private int version;
  private int sent = -1;

  /**
   * A stage that was listed.
   *
   * @param number its place in the table
   * @param id of Spark, the smallest of those that it has
   */
  StageStatistics(int number, int id, String name) {
    this.number = number;
    this.firstId = id;
    this.name = name == null ? "" : name;
  }

  /** Takes that it was listed, perhaps once more, under an id. */
  void listed(int id, int width, int[] parentIds) {
    firstId = Math.min(firstId, id);
    if (width > tasks && width <= TASKS_MAX) {
      if (done == null) {
        done = new BitSet();
        done.set(0, tasks);
      }
      tasks = width;
    }
    for (int parent : parentIds) {
      if (parents.size() < PARENTS_MAX) {
        parents.add(parent);
      }
    }
    version++;
  }

  /** Takes that tasks of it run. */
  void ran() {
    ran = true;
    version++;
  }

  /** Records the end of an attempt of a task. The first successful attempt counts. */
  void ended(int task, End end, boolean copy, long tookMs, long readBytes) {
    speculative += copy ? 1 : 0;
    if (end == End.FAILED) {
      failed++;
    } else if (end == End.KILLED) {
      killed++;
    } else if (done == null || task < 0 || task >= tasks || done.get(task)) {
      repeated++;
    } else {
      done.set(task);
      durations.add(tookMs);
      inputBytes += Math.max(readBytes, 0);
      if (done.cardinality() == tasks) {
        done = null;
      }
    }
    ran = true;
    version++;
  }

  /** Whether it ran and has changed since it was last sent. */
  boolean isNews() {
    return ran && sent != version;
  }

  int version() {
    return version;
  }

  /** Notes that a version of it was sent; -1: that none was. */
  void sent(int sentVersion) {
    sent = sentVersion;
  }

  /**
   * Writes it into a report (docs/tez-plugin.md).
   *
   * @param numbers gives the number of the stage that has an id of Spark's; null if there is none
   */
  void write(DataOutputStream out, IntFunction<Integer> numbers) throws IOException {
    Set<Integer> known = new TreeSet<>();
    for (int parent : parents) {
      Integer at = numbers.apply(parent);
      if (at != null && at != number) {
        known.add(at);
      }
    }
    out.writeInt(number);
    out.writeInt(firstId);
    Texts.write(out, name);
    out.writeInt(tasks);
    out.writeInt(known.size());
    for (int at : known) {
      out.writeInt(at);
    }
    out.writeLong(inputBytes);
    out.writeInt(failed);
    out.writeInt(killed);
    out.writeInt(repeated);
    out.writeInt(speculative);
    durations.write(out);
  }
}

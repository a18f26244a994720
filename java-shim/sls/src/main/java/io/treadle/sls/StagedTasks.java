// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;

/**
 * Which tasks of a job wait for containers, which run, and which asks an application master has to send. A stage asks
 * when all stages before it have ended. A container goes to a task of its priority, the first that asked.
 */
final class StagedTasks {
  private List<Script.Stage> stages;
  private final int[] unfinished;
  private final boolean[] open;
  private final Map<Integer, Deque<Task>> waiting = new TreeMap<>();
  private final Map<ContainerId, Task> running = new HashMap<>();
  private final Set<Integer> changed = new TreeSet<>();
  private int left;

  /** A task. */
  static final class Task {
    final int stage;
    /** Within its stage. */
    final int number;
    final long durationMs;

    Task(int stage, int number, long durationMs) {
      this.stage = stage;
      this.number = number;
      this.durationMs = durationMs;
    }
  }

  /** The requests at a priority, absolute. */
  static final class Ask {
    final int priority;
    final Resource resource;
    final int count;

    Ask(int priority, Resource resource, int count) {
      this.priority = priority;
      this.resource = resource;
      this.count = count;
    }
  }

  StagedTasks(List<Script.Stage> stages) {
    this.stages = stages;
    unfinished = new int[stages.size()];
    open = new boolean[stages.size()];
    for (int i = 0; i < unfinished.length; i++) {
      unfinished[i] = stages.get(i).durationsMs.length;
      left += unfinished[i];
    }
    openStages();
  }

  private void openStages() {
    for (int i = 0; i < open.length; i++) {
      if (!open[i] && isReady(stages.get(i))) {
        open[i] = true;
        Script.Stage stage = stages.get(i);
        for (int number = 0; number < stage.durationsMs.length; number++) {
          await(new Task(i, number, stage.durationsMs[number]));
        }
      }
    }
  }

  private boolean isReady(Script.Stage stage) {
    for (int before : stage.after) {
      if (unfinished[before] > 0) {
        return false;
      }
    }
    return true;
  }

  private void await(Task task) {
    int priority = stages.get(task.stage).priority;
    waiting.computeIfAbsent(priority, key -> new ArrayDeque<>()).add(task);
    changed.add(priority);
  }

  /** The stages that tasks were asked for, by their places. */
  Set<Integer> asked() {
    Set<Integer> found = new TreeSet<>();
    for (int i = 0; i < open.length; i++) {
      if (open[i]) {
        found.add(i);
      }
    }
    return found;
  }

  /** Follows other priorities from now on; those of stages that tasks were asked for must be the same. */
  void follow(List<Script.Stage> others) {
    stages = others;
  }

  /** The asks that have changed since the last call. */
  List<Ask> asks() {
    List<Ask> found = new ArrayList<>();
    for (int priority : changed) {
      Deque<Task> tasks = waiting.get(priority);
      if (!tasks.isEmpty()) {
        found.add(new Ask(priority, stages.get(tasks.peek().stage).resource, tasks.size()));
      }
    }
    changed.clear();
    return found;
  }

  /** Gives a container to a task; returns how long that runs, -1 if none waits at this priority. */
  long start(ContainerId container, int priority) {
    Task task = waiting.getOrDefault(priority, new ArrayDeque<>()).poll();
    if (task == null) {
      return -1;
    }
    running.put(container, task);
    return task.durationMs;
  }

  /**
   * A container has ended; a task that did not succeed waits again. Others' containers are ignored.
   *
   * @return the task that has succeeded by it; null if none has
   */
  Task ended(ContainerId container, boolean succeeded) {
    Task task = running.remove(container);
    if (task == null) {
      return null;
    }
    if (!succeeded) {
      await(task);
      return null;
    }
    left--;
    unfinished[task.stage]--;
    if (unfinished[task.stage] == 0) {
      openStages();
    }
    return task;
  }

  /** Whether all tasks have succeeded. */
  boolean isDone() {
    return left == 0;
  }
}

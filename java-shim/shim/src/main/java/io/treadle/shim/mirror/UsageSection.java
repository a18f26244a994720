// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceUsage;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * Writes what applications use and what their queues still leave them. The usage follows every change at once.
 * Headroom changes for all applications of a queue with every container, so it is sent along with the usage, and by
 * itself only when it grew since it was last sent: what the engine knows is an upper bound or becomes one with the
 * next review.
 */
final class UsageSection {
  private final List<ApplicationSection.Row> dirty = new ArrayList<>();
  private final Map<QueueSection.Row, Map<TreeSet<String>, long[]>> headrooms = new HashMap<>();
  private final QueueSection queues;

  UsageSection(QueueSection queues) {
    this.queues = queues;
  }

  void reset() {
    dirty.clear();
    headrooms.clear();
  }

  /** What an application uses has changed, or may have. */
  void touch(ApplicationSection.Row row) {
    if (!row.usageDirty) {
      row.usageDirty = true;
      dirty.add(row);
    }
  }

  /** Writes the rows touched; to be called once a frame, after the queues' limits. */
  void update(Draft draft) {
    headrooms.clear();
    for (ApplicationSection.Row row : dirty) {
      row.usageDirty = false;
      if (row.lives()) {
        write(draft, row);
      }
    }
    dirty.clear();
  }

  private void write(Draft draft, ApplicationSection.Row row) {
    FiCaSchedulerApp app = row.app;
    int containers = app.getLiveContainersMap().size();
    long[] used = used(draft, app.getAppAttemptResourceUsage());
    long[] headroom = headroom(draft, row);
    if (containers == row.containers && Arrays.equals(used, row.used) && !exceeds(headroom, row.headroom)) {
      return;
    }
    row.containers = containers;
    System.arraycopy(used, 0, row.used, 0, used.length);
    System.arraycopy(headroom, 0, row.headroom, 0, headroom.length);
    draft.section(Section.APPLICATION_USAGE).i32(row.index).i32(containers).amounts(used).amounts(headroom).end();
  }

  private static boolean exceeds(long[] now, long[] before) {
    for (int i = 0; i < now.length; i++) {
      if (now[i] > before[i]) {
        return true;
      }
    }
    return false;
  }

  private static long[] used(Draft draft, ResourceUsage usage) {
    long[] sum = new long[draft.resources()];
    long[] one = new long[draft.resources()];
    for (String partition : draft.partitions) {
      draft.copy(usage.getUsed(partition), one, 0);
      for (int i = 0; i < sum.length; i++) {
        sum[i] += one[i];
      }
    }
    return sum;
  }

  private long[] headroom(Draft draft, ApplicationSection.Row row) {
    QueueSection.Row queue = queues.row(row.queue);
    if (queue == null) {
      return new long[draft.resources()];
    }
    return headrooms.computeIfAbsent(queue, leaf -> new HashMap<>())
        .computeIfAbsent(row.user.partitions, partitions -> {
          long[] sum = new long[draft.resources()];
          partitions.forEach(partition -> QueueLimitsSection.addHeadroom(queue, partition, sum));
          return sum;
        });
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceUsage;

/**
 * Writes what queues may and do use, by partition: for leaves in which something happened and the queues above them,
 * and for all queues when the tree was walked. A row is sent only when it differs from the last one.
 */
final class QueueLimitsSection {
  private static final int GUARANTEED = 0;
  private static final int MAXIMUM = 1;
  private static final int USED = 2;
  private static final int PENDING = 3;
  private static final int AM_LIMIT = 4;
  private static final int AM_USED = 5;
  private static final int AMOUNTS = 6;

  private final Set<QueueSection.Row> dirty = Collections.newSetFromMap(new IdentityHashMap<>());

  /** Forgets what was touched. */
  void reset() {
    dirty.clear();
  }

  /** Something happened in a leaf; null is none. */
  void touch(QueueSection.Row leaf) {
    for (QueueSection.Row row = leaf; row != null && dirty.add(row); row = row.parent) {
      // the set remembers, the loop only climbs
    }
  }

  /** Writes the rows of queues that were touched. */
  void update(Draft draft) {
    writeAll(draft, dirty);
    dirty.clear();
  }

  /** Looks at all queues, and forgets what was touched. */
  void review(Draft draft, Collection<QueueSection.Row> rows) {
    dirty.clear();
    writeAll(draft, rows);
  }

  private static void writeAll(Draft draft, Collection<QueueSection.Row> rows) {
    for (QueueSection.Row row : rows) {
      for (String partition : draft.partitions) {
        write(draft, row, partition);
      }
    }
  }

  private static void write(Draft draft, QueueSection.Row row, String partition) {
    int resources = draft.resources();
    long[] amounts = row.limits.get(partition);
    boolean changed = false;
    if (amounts == null) {
      amounts = new long[AMOUNTS * resources];
      row.limits.put(partition, amounts);
      changed = partition.isEmpty();
    }
    ResourceUsage usage = row.queue.getQueueResourceUsage();
    changed |= draft.copy(row.queue.getEffectiveCapacity(partition), amounts, GUARANTEED * resources);
    changed |= draft.copy(row.queue.getEffectiveMaxCapacity(partition), amounts, MAXIMUM * resources);
    changed |= draft.copy(usage.getUsed(partition), amounts, USED * resources);
    changed |= draft.copy(usage.getPending(partition), amounts, PENDING * resources);
    if (row.leaf) {
      changed |= draft.copy(usage.getAMLimit(partition), amounts, AM_LIMIT * resources);
      changed |= draft.copy(usage.getAMUsed(partition), amounts, AM_USED * resources);
    }
    if (changed) {
      SectionWriter writer = draft.section(Section.QUEUE_LIMITS).i32(row.index).name(draft.name(partition));
      for (int i = 0; i < AMOUNTS; i++) {
        writer.amounts(amounts, i * resources);
      }
      writer.end();
    }
  }

  /**
   * Adds what a queue and all above it leave free in a partition, as of the rows sent last, to {@code sum}: at least
   * 0 of each type.
   */
  static void addHeadroom(QueueSection.Row leaf, String partition, long[] sum) {
    int resources = sum.length;
    for (int i = 0; i < resources; i++) {
      long least = Long.MAX_VALUE;
      for (QueueSection.Row row = leaf; row != null; row = row.parent) {
        long[] amounts = row.limits.get(partition);
        long left = amounts == null ? 0 : amounts[MAXIMUM * resources + i] - amounts[USED * resources + i];
        least = Math.min(least, left);
      }
      sum[i] += least == Long.MAX_VALUE ? 0 : Math.max(0, least);
    }
  }
}

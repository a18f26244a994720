// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractUsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;

/**
 * Writes users' limits in leaf queues. The RM computes a limit anew whenever anything in the leaf changed, so only
 * users with outstanding requests are looked at, at most {@value #PER_FRAME} in a frame, in turns.
 */
final class UserSection {
  private static final int PER_FRAME = 32;

  private final Map<CSQueue, Map<String, Row>> rows = new IdentityHashMap<>();
  private final Set<CSQueue> touched = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Set<Row> due = new LinkedHashSet<>();

  void reset() {
    rows.clear();
    touched.clear();
    due.clear();
  }

  /** An application of a user came into a leaf; answers the user's row there. */
  Row join(CSQueue leaf, String user) {
    Row row = rows.computeIfAbsent(leaf, queue -> new HashMap<>()).computeIfAbsent(user, name -> new Row(leaf, name));
    row.applications++;
    return row;
  }

  /** An application of a user has left a leaf. */
  void leave(Row row) {
    Map<String, Row> users = rows.get(row.leaf);
    if (--row.applications == 0 && users != null) {
      users.remove(row.user, row);
      due.remove(row);
      if (users.isEmpty()) {
        rows.remove(row.leaf);
      }
    }
  }

  /** Something happened in a leaf: the limits of all its users may have changed. */
  void touch(CSQueue leaf) {
    touched.add(leaf);
  }

  /** Writes users of leaves that were touched. In a snapshot: all of them. */
  void update(Draft draft, QueueSection queues) {
    for (CSQueue leaf : touched) {
      for (Row row : rows.getOrDefault(leaf, Collections.emptyMap()).values()) {
        if (row.isAsking()) {
          due.add(row);
        }
      }
    }
    touched.clear();
    int left = draft.snapshot ? Integer.MAX_VALUE : PER_FRAME;
    for (Iterator<Row> rest = due.iterator(); rest.hasNext() && left > 0; left--) {
      Row row = rest.next();
      rest.remove();
      QueueSection.Row queue = queues.row(row.leaf);
      if (queue != null && row.isAsking()) {
        write(draft, row, queue.index);
      }
    }
  }

  /** Forgets users of leaves that were removed. */
  void keepOnly(QueueSection queues) {
    rows.keySet().removeIf(leaf -> queues.row(leaf) == null);
    due.removeIf(row -> queues.row(row.leaf) == null);
  }

  private static void write(Draft draft, Row row, int queue) {
    AbstractUsersManager manager = row.leaf.getAbstractUsersManager();
    if (!(manager instanceof UsersManager)) {
      return;
    }
    UsersManager users = (UsersManager) manager;
    UsersManager.User user = users.getUser(row.user);
    if (user == null) {
      return;
    }
    int resources = draft.resources();
    for (String partition : row.partitions) {
      long[] amounts = row.sent.get(partition);
      boolean changed = amounts == null;
      if (amounts == null) {
        amounts = new long[2 * resources];
        row.sent.put(partition, amounts);
      }
      changed |= draft.copy(users.getComputedResourceLimitForActiveUsers(row.user,
          draft.scheduler.getClusterResource(), partition, SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY), amounts, 0);
      changed |= draft.copy(user.getUsed(partition), amounts, resources);
      if (changed) {
        draft.section(Section.USERS).i32(queue).name(draft.name(row.user)).name(draft.name(partition))
            .amounts(amounts, 0).amounts(amounts, resources).end();
      }
    }
  }

  /** A user with applications in a leaf queue. */
  static final class Row {
    final CSQueue leaf;
    final String user;
    /** The partitions that the user's applications ask for, the default one always. */
    final TreeSet<String> partitions = new TreeSet<>();
    /** By partition: limit and used, as sent last. */
    final Map<String, long[]> sent = new HashMap<>();
    private int asking;
    private int applications;

    Row(CSQueue leaf, String user) {
      this.leaf = leaf;
      this.user = user;
      partitions.add("");
    }

    /** One more application of the user has outstanding requests, or one less. */
    void asking(int change) {
      asking += change;
    }

    boolean isAsking() {
      return asking > 0;
    }
  }
}

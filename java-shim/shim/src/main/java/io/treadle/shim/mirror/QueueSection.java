// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.QueueState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceUsage;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FairOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Writes the queue tree, whole, when anything in it changed; what queues may and do use, by partition; and users'
 * limits in leaf queues.
 *
 * <p>Walking the tree is cheap but not free, and every application that comes may have made a queue, so it is walked at
 * most every {@value #WALK_MS} ms unless an application names a queue that is not known. Usage is looked at in leaves
 * in which something happened and the queues above them, and in all queues when the tree was walked. The RM computes a
 * user's limit again whenever anything in the leaf changed, so only users with outstanding requests are looked at, at
 * most {@value #USERS_PER_FRAME} in a frame, in turns.
 */
final class QueueSection {
  private static final long WALK_MS = 100;
  private static final long REVIEW_MS = 1000;
  private static final int USERS_PER_FRAME = 32;
  /** Values of a row of limits before its amounts: queue and partition. */
  private static final int BEFORE_AMOUNTS = 2;
  /** The positions of maximum and usage in a row of limits, and the number of its amounts. */
  private static final int MAXIMUM = 1;
  private static final int USED = 2;
  private static final int AMOUNTS = 6;

  private final Map<String, Integer> indices = new HashMap<>();
  private Map<CSQueue, Row> rows = new IdentityHashMap<>();
  private Object[] sent = {};
  /** Leaves in which something happened. */
  private final Set<CSQueue> touched = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Map<CSQueue, Map<String, User>> users = new IdentityHashMap<>();
  private final Set<User> dueUsers = new LinkedHashSet<>();
  private long walkedMs;
  private boolean changed;
  private boolean unknown;
  private int size;

  /** Forgets all indices; the next {@link #update} walks the tree and writes it. */
  void reset() {
    indices.clear();
    size = 0;
    rows = new IdentityHashMap<>();
    sent = new Object[0];
    touched.clear();
    users.clear();
    dueUsers.clear();
    unknown = true;
  }

  /** A leaf changed: its usage and the limits of its users may have changed. */
  void touch(CSQueue leaf) {
    touched.add(leaf);
  }

  /**
   * Walks the tree if it is time to, and writes the changes.
   *
   * @param maybe whether the tree may have changed since the last call
   * @return whether the tree was walked
   */
  boolean update(Draft draft, boolean maybe) {
    changed |= maybe;
    boolean walks = unknown || draft.monotonicMs - walkedMs >= (changed ? WALK_MS : REVIEW_MS);
    if (walks) {
      walk(draft);
      users.keySet().removeIf(leaf -> !rows.containsKey(leaf));
      dueUsers.removeIf(user -> !rows.containsKey(user.leaf));
      rows.values().stream().filter(row -> row.leaf).forEach(row -> touched.add(row.queue));
    }
    Set<Row> due = Collections.newSetFromMap(new IdentityHashMap<>());
    for (CSQueue leaf : touched) {
      for (Row row = rows.get(leaf); row != null && due.add(row); row = row.parent) {
        // the set remembers, the loop only climbs
      }
      users.getOrDefault(leaf, Collections.emptyMap()).values().stream().filter(user -> user.asking > 0)
          .forEach(dueUsers::add);
    }
    touched.clear();
    for (Row row : walks ? rows.values() : due) {
      draft.partitions.forEach(partition -> writeLimits(draft, row, partition));
    }
    writeUsers(draft);
    return walks;
  }

  private void walk(Draft draft) {
    walkedMs = draft.monotonicMs;
    changed = false;
    unknown = false;
    // a leaf that became a parent is another object, and has the index of its path
    Map<Integer, Row> before = new HashMap<>();
    rows.values().forEach(row -> before.put(row.index, row));
    rows = new IdentityHashMap<>();
    List<long[]> now = new ArrayList<>();
    visit(draft, draft.scheduler.getRootQueue(), null, before, now);
    indices.values().retainAll(rows.values().stream().map(row -> row.index).collect(Collectors.toSet()));
    if (!Arrays.deepEquals(now.toArray(), sent)) {
      sent = now.toArray();
      now.forEach(draft.section(Section.QUEUES)::write);
    }
  }

  private void visit(Draft draft, CSQueue queue, Row parent, Map<Integer, Row> before, List<long[]> now) {
    String path = queue.getQueuePath();
    Row row = new Row(index(path), queue, parent, LeafQueues.isLeaf(queue));
    Row old = before.get(row.index);
    if (old != null) {
      row.limits.putAll(old.limits);
    }
    rows.put(queue, row);
    Priority level = queue.getPriority();
    now.add(draft.section(Section.QUEUES).add(row.index).add(parent == null ? -1 : parent.index).add(draft.name(path))
        .add(state(queue.getState())).flag(row.leaf).add(draft.name(policy(draft, row, path)))
        .flag(sizeBasedWeight(row)).add(level == null ? 0 : level.getPriority()).rowIfOther(null));
    List<CSQueue> children = queue.getChildQueues();
    if (children != null) {
      for (CSQueue child : children) {
        visit(draft, child, row, before, now);
      }
    }
  }

  private static int state(QueueState state) {
    if (state == QueueState.RUNNING) {
      return 1;
    }
    return state == QueueState.DRAINING ? 2 : 0;
  }

  /** For a leaf {@code fifo}, {@code fair} or the class of its policy; for a parent the configured value. */
  private static String policy(Draft draft, Row row, String path) {
    if (!row.leaf) {
      return draft.scheduler.getConfiguration()
          .get("yarn.scheduler.capacity." + path + ".ordering-policy", "utilization").trim();
    }
    Class<?> policy = LeafQueues.orderingPolicy(row.queue).getClass();
    if (policy == FifoOrderingPolicy.class) {
      return "fifo";
    }
    return policy == FairOrderingPolicy.class ? "fair" : policy.getName();
  }

  private static boolean sizeBasedWeight(Row row) {
    OrderingPolicy<?> policy = row.leaf ? LeafQueues.orderingPolicy(row.queue) : null;
    return policy instanceof FairOrderingPolicy && ((FairOrderingPolicy<?>) policy).getSizeBasedWeight();
  }

  private static void writeLimits(Draft draft, Row row, String partition) {
    ResourceUsage usage = row.queue.getQueueResourceUsage();
    int name = draft.name(partition);
    long[] before = row.limits.get(partition);
    if (before == null && !partition.isEmpty()) {
      // a queue that has nothing in a partition is not sent there
      before = new long[BEFORE_AMOUNTS + AMOUNTS * draft.resources()];
      before[0] = row.index;
      before[1] = name;
    }
    row.limits.put(partition, draft.section(Section.QUEUE_LIMITS).add(row.index).add(name)
        .amounts(row.queue.getEffectiveCapacity(partition)).amounts(row.queue.getEffectiveMaxCapacity(partition))
        .amounts(usage.getUsed(partition)).amounts(usage.getPending(partition))
        .amounts(row.leaf ? usage.getAMLimit(partition) : null).amounts(row.leaf ? usage.getAMUsed(partition) : null)
        .endIfOther(before));
  }

  /**
   * What a leaf and all queues above it leave free in some partitions together, as of the rows sent last: at least 0 of
   * each of {@code resources} types.
   */
  long[] headroom(CSQueue leaf, Set<String> partitions, int resources) {
    long[] sum = new long[resources];
    for (String partition : partitions) {
      for (int i = 0; i < resources && rows.containsKey(leaf); i++) {
        long least = Long.MAX_VALUE;
        for (Row row = rows.get(leaf); row != null; row = row.parent) {
          long[] limits = row.limits.get(partition);
          int at = BEFORE_AMOUNTS + i;
          least = Math.min(least,
              limits == null ? 0 : limits[at + MAXIMUM * resources] - limits[at + USED * resources]);
        }
        sum[i] += Math.max(0, least);
      }
    }
    return sum;
  }

  /** The index of a queue by its path. */
  private int index(String path) {
    return indices.computeIfAbsent(path, fresh -> size++);
  }

  /** The index of a queue; a queue that is not in the tree yet gets one, and the tree is walked in this frame. */
  int index(CSQueue queue) {
    Row row = rows.get(queue);
    unknown |= row == null;
    return row == null ? index(queue.getQueuePath()) : row.index;
  }

  /** How many indices were given out. */
  int size() {
    return size;
  }

  /** An application of a user came into a leaf; returns the user's row there. */
  User join(CSQueue leaf, String name) {
    User user = users.computeIfAbsent(leaf, queue -> new HashMap<>())
        .computeIfAbsent(name, fresh -> new User(leaf, fresh));
    user.applications++;
    return user;
  }

  /** An application of a user has left a leaf. */
  void leave(User user) {
    Map<String, User> others = users.get(user.leaf);
    if (--user.applications == 0 && others != null) {
      others.remove(user.name, user);
      dueUsers.remove(user);
      if (others.isEmpty()) {
        users.remove(user.leaf);
      }
    }
  }

  /** Writes users that are due; in a snapshot all of them. */
  private void writeUsers(Draft draft) {
    int left = draft.snapshot ? Integer.MAX_VALUE : USERS_PER_FRAME;
    for (Iterator<User> rest = dueUsers.iterator(); rest.hasNext() && left > 0; left--) {
      User user = rest.next();
      rest.remove();
      Row queue = rows.get(user.leaf);
      if (queue != null && queue.leaf && user.asking > 0) {
        write(draft, user, queue.index);
      }
    }
  }

  private static void write(Draft draft, User user, int queue) {
    UsersManager users = LeafQueues.users(user.leaf);
    UsersManager.User known = users.getUser(user.name);
    if (known == null) {
      return;
    }
    for (String partition : user.partitions) {
      user.sent.put(partition, draft.section(Section.USERS).add(queue).add(draft.name(user.name))
          .add(draft.name(partition)).amounts(users.getComputedResourceLimitForActiveUsers(user.name,
              draft.scheduler.getClusterResource(), partition, SchedulingMode.RESPECT_PARTITION_EXCLUSIVITY))
          .amounts(known.getUsed(partition)).endIfOther(user.sent.get(partition)));
    }
  }

  /** A queue of the current tree. */
  private static final class Row {
    private final int index;
    private final CSQueue queue;
    /** The queue above it, null for the root. */
    private final Row parent;
    private final boolean leaf;
    /** By partition: the row that was sent last. */
    private final Map<String, long[]> limits = new HashMap<>();

    Row(int index, CSQueue queue, Row parent, boolean leaf) {
      this.index = index;
      this.queue = queue;
      this.parent = parent;
      this.leaf = leaf;
    }
  }

  /** A user with applications in a leaf queue. */
  static final class User {
    private final CSQueue leaf;
    private final String name;
    /** The partitions that the user's applications ask for, the default one always. */
    final TreeSet<String> partitions = new TreeSet<>(Collections.singleton(""));
    /** By partition: the row that was sent last. */
    private final Map<String, long[]> sent = new HashMap<>();
    /** How many of the user's applications have outstanding requests. */
    int asking;
    private int applications;

    User(CSQueue leaf, String name) {
      this.leaf = leaf;
      this.name = name;
    }
  }
}

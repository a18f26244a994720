// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import io.treadle.shim.EngineView;
import io.treadle.shim.LeafQueues;
import io.treadle.shim.journal.ContainerStep;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes application attempts. Being activated, having got an AM container, a new priority and a move to another
 * queue cause no event, so attempts that wait for one of the first two are looked at often, and all in turns.
 */
final class ApplicationSection {
  private static final long ACTIVATION_MS = 20;

  private final Map<ApplicationId, Row> rows = new HashMap<>();
  private final List<Row> byIndex = new ArrayList<>();
  private final Set<Row> unsettled = new LinkedHashSet<>();
  private final List<Row> dirty = new ArrayList<>();
  private final Map<CSQueue, Set<FiCaSchedulerApp>> active = new IdentityHashMap<>();
  private final QueueSection queues;
  private final UserSection users;
  private final EngineView view;
  private final Map<String, UserBudget> budgets = new HashMap<>();
  private final int ofUser;
  private long activationsMs;

  ApplicationSection(int ofUser, QueueSection queues, UserSection users, EngineView view) {
    this.ofUser = ofUser;
    this.view = view;
    this.queues = queues;
    this.users = users;
  }

  /** Forgets all indices. */
  void reset() {
    rows.clear();
    byIndex.clear();
    unsettled.clear();
    dirty.clear();
    active.clear();
    budgets.clear();
    view.forgetKeys();
  }

  /** A snapshot was written: what it cost is not counted. */
  void refill() {
    budgets.values().forEach(UserBudget::refill);
  }

  /** Forgets users that have no applications. */
  void dropIdle(long nowMs) {
    budgets.values().removeIf(budget -> budget.isIdle(nowMs));
  }

  /**
   * Forgets all indices and takes all attempts, in the order in which the applications were submitted.
   *
   * @return the new rows
   */
  List<Row> snapshot(Draft draft) {
    reset();
    activationsMs = draft.monotonicMs;
    List<Row> fresh = new ArrayList<>();
    for (ApplicationId id : new TreeSet<>(draft.scheduler.getSchedulerApplications().keySet())) {
      Row row = review(draft, id);
      if (row != null) {
        fresh.add(row);
      }
    }
    return fresh;
  }

  /** Has to be called once before the reviews of a delta. */
  void begin() {
    active.clear();
  }

  /**
   * Looks at an application.
   *
   * @return its row if that is new, so that all about it has to be written; else null
   */
  Row review(Draft draft, ApplicationId id) {
    SchedulerApplication<FiCaSchedulerApp> known = draft.scheduler.getSchedulerApplications().get(id);
    FiCaSchedulerApp app = known == null ? null : known.getCurrentAppAttempt();
    if (app != null && (app.isStopped() || !(app.getQueue() instanceof CSQueue))) {
      app = null;
    }
    Row row = rows.get(id);
    if (row != null && row.app != app) {
      retire(row, id);
      row = null;
    }
    if (app == null) {
      return null;
    }
    boolean fresh = row == null;
    if (fresh) {
      row = new Row(byIndex.size(), app, draft.resources(),
          budgets.computeIfAbsent(app.getUser(), user -> new UserBudget(ofUser)));
      rows.put(id, row);
      byIndex.add(row);
    }
    take(row);
    return fresh ? row : null;
  }

  private void retire(Row row, ApplicationId id) {
    rows.remove(id);
    unsettled.remove(row);
    if (row.askingKeys > 0) {
      row.user.asking(-1);
      row.askingKeys = 0;
    }
    users.leave(row.user);
    row.end();
    view.keys(row.app.getApplicationAttemptId(), null);
    users.touch(row.queue);
    row.state = Row.GONE;
    markDirty(row, 0);
  }

  private void take(Row row) {
    CSQueue queue = (CSQueue) row.app.getQueue();
    boolean moved = queue != row.queue;
    if (moved) {
      move(row, queue);
    }
    Priority priority = row.app.getPriority();
    int level = priority == null ? 0 : priority.getPriority();
    boolean awaitingAm = row.app.isWaitingForAMContainer();
    int state = row.state == Row.ACTIVE && !moved || isActive(row.app, queue)
        ? Row.ACTIVE : Row.WAITING;
    if (moved || level != row.priority || awaitingAm != row.awaitingAm || state != row.state) {
      row.priority = level;
      row.awaitingAm = awaitingAm;
      row.state = state;
      users.touch(queue);
      markDirty(row, 0);
    }
    if (awaitingAm || state == Row.WAITING) {
      unsettled.add(row);
    } else {
      unsettled.remove(row);
    }
  }

  private void move(Row row, CSQueue queue) {
    if (row.user != null) {
      row.user.asking(row.askingKeys > 0 ? -1 : 0);
      users.touch(row.queue);
      users.leave(row.user);
    }
    row.queue = queue;
    row.queueIndex = queues.index(queue);
    row.user = users.join(queue, row.app.getUser());
    if (row.askingKeys > 0) {
      row.user.asking(1);
    }
  }

  private boolean isActive(FiCaSchedulerApp app, CSQueue queue) {
    return active.computeIfAbsent(queue, leaf -> {
      Set<FiCaSchedulerApp> apps = Collections.newSetFromMap(new IdentityHashMap<>());
      if (LeafQueues.isLeaf(leaf)) {
        apps.addAll(LeafQueues.active(leaf));
      }
      return apps;
    }).contains(app);
  }

  /**
   * Looks at attempts that wait for their activation or their AM container.
   *
   * @param gotAm is given those whose AM container was placed
   */
  void settle(Draft draft, List<Row> gotAm) {
    boolean activations = draft.monotonicMs - activationsMs >= ACTIVATION_MS;
    if (activations) {
      activationsMs = draft.monotonicMs;
    }
    for (Iterator<Row> rest = unsettled.iterator(); rest.hasNext();) {
      Row row = rest.next();
      if (row.awaitingAm && !row.app.isWaitingForAMContainer()) {
        row.awaitingAm = false;
        gotAm.add(row);
        markDirty(row, 0);
      }
      if (activations && row.state == Row.WAITING && isActive(row.app, row.queue)) {
        row.state = Row.ACTIVE;
        users.touch(row.queue);
        markDirty(row, 0);
      }
      if (!row.awaitingAm && row.state == Row.ACTIVE) {
        rest.remove();
      }
    }
  }

  /** Has the attempt's row written with this frame, replacing what {@code replaces} says. */
  void markDirty(Row row, int replaces) {
    row.replaces |= replaces;
    if (!row.dirty) {
      row.dirty = true;
      dirty.add(row);
    }
  }

  /** Writes the rows that are due. */
  void write(Draft draft) {
    for (Row row : dirty) {
      write(draft, row);
      row.dirty = false;
      row.replaces = 0;
      if (row.state == Row.GONE) {
        byIndex.set(row.index, null);
      }
    }
    dirty.clear();
  }

  private static void write(Draft draft, Row row) {
    ApplicationAttemptId attempt = row.app.getApplicationAttemptId();
    ApplicationId id = attempt.getApplicationId();
    RMApp app = draft.context.getRMApps().get(id);
    String partition = row.app.getAppSchedulingInfo().getDefaultNodeLabelExpression();
    draft.section(Section.APPLICATIONS).i32(row.index).i64(id.getClusterTimestamp()).i32(id.getId())
        .i32(attempt.getAttemptId()).name(draft.name(app == null ? "" : app.getName()))
        .name(draft.name(app == null ? "" : app.getApplicationType())).name(draft.name(row.app.getUser()))
        .i32(row.queueIndex).name(draft.name(partition == null ? "" : partition.trim())).i32(row.priority)
        .i64(app == null ? 0 : app.getSubmitTime()).i64(app == null ? 0 : app.getStartTime())
        .u8(row.state).flag(row.awaitingAm).u8(row.replaces).end();
  }

  /** All that have not gone. */
  Collection<Row> rows() {
    return rows.values();
  }

  /** The row of an application that has not gone, or null. */
  Row row(ApplicationId id) {
    return rows.get(id);
  }

  /** The row behind an index, null if its attempt has gone. */
  Row row(int index) {
    return byIndex.get(index);
  }

  /** How many indices were given out. */
  int size() {
    return byIndex.size();
  }

  /** An application attempt, as it was sent last. */
  static final class Row {
    static final int GONE = 0;
    static final int ACTIVE = 1;
    static final int WAITING = 2;

    final int index;
    final FiCaSchedulerApp app;
    CSQueue queue;
    UserSection.Row user;
    int queueIndex;
    int priority;
    int state = GONE;
    boolean awaitingAm;
    /** What the APPLICATIONS row of this frame has to replace; the row is due if {@link #dirty}. */
    int replaces;
    boolean dirty;
    boolean usageDirty;
    final Map<SchedulerRequestKey, RequestSection.Row> keys = new HashMap<>();
    /** Keys without requests that keep their indices. */
    final Map<SchedulerRequestKey, RequestSection.Row> goneKeys = new HashMap<>();
    /** With null where a key has gone and its index may be used again. */
    final List<RequestSection.Row> keysByIndex = new ArrayList<>();
    final Indices keyIndices = new Indices(RequestSection.KEPT_INDICES);
    /** How many of its keys have outstanding requests. */
    int askingKeys;
    final UserBudget budget;
    private final Map<Cap, Integer> standing = new EnumMap<>(Cap.class);
    /** Of what it has more than is sent. */
    final Set<Cap> exceeded = EnumSet.noneOf(Cap.class);
    private String capsShown;
    /** Whether its requests were looked at at all. */
    boolean reviewed;
    /** Whether something was not written because its user has changed much lately. */
    boolean late;
    /** Whether it has names that no node and no rack has. */
    boolean unknownPlaces;
    /** Whether its blacklist has to be read; while it awaits its AM that takes a look at each node. */
    boolean blacklistDue = true;
    /** Whether its blacklist is so long that the cluster's names are looked up there and not the other way round. */
    boolean longBlacklist;
    Set<String> blacklist = new HashSet<>();
    /** How many containers were sent with the usage. */
    int containers = -1;
    /** The last step sent of each container that has not ended. */
    final Map<ContainerId, ContainerStep> containersAlive = new HashMap<>();
    /** Containers that were not as in the scheduler at the last look, and when that was. */
    Set<ContainerId> differing = Collections.emptySet();
    long differingMs;
    /** The token whose key was sent last. */
    Token<AMRMTokenIdentifier> keyToken;
    final long[] used;
    final long[] headroom;

    Row(int index, FiCaSchedulerApp app, int resources, UserBudget budget) {
      budget.applications(1);
      this.budget = budget;
      this.index = index;
      this.app = app;
      this.used = new long[resources];
      this.headroom = new long[resources];
    }

    /** Whether its attempt has not gone. */
    boolean lives() {
      return state != GONE;
    }

    /** How much of something it may have in frames. */
    int room(Cap cap) {
      return budget.room(cap, standing.getOrDefault(cap, 0));
    }

    /** So much of something it has in frames now, or is looked at for that; {@code more}: there is more of it. */
    void stands(Cap cap, int count, boolean more) {
      Integer before = standing.put(cap, count);
      budget.stands(cap, count - (before == null ? 0 : before));
      budget.spend(count);
      if (more) {
        exceeded.add(cap);
      } else {
        exceeded.remove(cap);
      }
    }

    /** Has its diagnostics show what it has more of than is sent. */
    void reportCaps(Draft draft) {
      capsShown = Cap.report(draft.context, app, exceeded, capsShown);
    }

    private void end() {
      standing.forEach((cap, count) -> budget.stands(cap, -count));
      budget.applications(-1);
    }

    /** Whether what is new of it has to wait; in a snapshot nothing has. */
    boolean waits(Draft draft) {
      boolean waits = !draft.snapshot && budget.isSpent();
      late |= waits;
      return waits;
    }

    /** One key more, or one less, has outstanding requests. */
    void asking(int change) {
      boolean before = askingKeys > 0;
      askingKeys += change;
      if (before != askingKeys > 0) {
        user.asking(change);
      }
    }
  }
}

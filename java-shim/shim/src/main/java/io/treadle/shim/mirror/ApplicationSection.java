package io.treadle.shim.mirror;

import io.treadle.shim.Caps;
import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
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
  static final int REPLACES_BLACKLIST = 2;
  static final int REPLACES_TAGS = 4;
  private static final long ACTIVATION_MS = 20;

  private final Map<ApplicationId, Row> rows = new HashMap<>();
  private final List<Row> byIndex = new ArrayList<>();
  private final Set<Row> unsettled = new LinkedHashSet<>();
  private final List<Row> dirty = new ArrayList<>();
  private final Map<CSQueue, Set<FiCaSchedulerApp>> active = new IdentityHashMap<>();
  private final QueueSection queues;
  private final UserSection users;
  private long activationsMs;

  ApplicationSection(QueueSection queues, UserSection users) {
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
      row = new Row(byIndex.size(), app, draft.resources());
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
    if (row.user != null && row.askingKeys > 0) {
      row.user.asking(-1);
      users.touch(row.queue);
    }
    row.queue = queue;
    row.queueIndex = queues.index(queue);
    row.user = users.row(queue, row.app.getUser());
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
    final List<RequestSection.Row> keysByIndex = new ArrayList<>();
    /** How many of its keys have outstanding requests. */
    int askingKeys;
    /** Whether it has more request keys, or more blacklisted names, than are sent. */
    boolean moreKeys;
    boolean moreNames;
    private String capsShown;
    Set<String> blacklist = new HashSet<>();
    int containers = -1;
    /** The token whose key was sent last. */
    Token<AMRMTokenIdentifier> keyToken;
    final long[] used;
    final long[] headroom;

    Row(int index, FiCaSchedulerApp app, int resources) {
      this.index = index;
      this.app = app;
      this.used = new long[resources];
      this.headroom = new long[resources];
    }

    /** Whether its attempt has not gone. */
    boolean lives() {
      return state != GONE;
    }

    /** Has its diagnostics show whether more of it is there than is sent. */
    void reportCaps(Draft draft) {
      capsShown = Caps.report(draft.context, app, moreKeys, moreNames, capsShown);
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

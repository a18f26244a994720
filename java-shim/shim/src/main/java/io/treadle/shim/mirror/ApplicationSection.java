// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.ApplicationTags;
import io.treadle.shim.Cap;
import io.treadle.shim.LeafQueues;
import io.treadle.shim.wire.Section;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes application attempts, their tags, usage and headroom, and the keys of those that the engine wants to
 * communicate with.
 *
 * <p>Activation, the AM's container, a new priority and a move to another queue cause no event, so attempts that wait
 * for one of the first two are reviewed often, and all in turns. The usage follows every change at once. Headroom
 * changes for all applications of a queue with every container, so it is sent along with the usage, and by itself only
 * when it grew since it was last sent: the engine's value is an upper bound or becomes one with the next review.
 */
final class ApplicationSection {
  private static final long SETTLE_MS = 20;
  private static final String KEY_ALGORITHM = "HmacSHA256";
  private static final byte[] KEY_PURPOSE = "treadle-plans-1".getBytes(StandardCharsets.US_ASCII);

  private final Map<ApplicationId, Row> rows = new HashMap<>();
  private final List<Row> byIndex = new ArrayList<>();
  private final Set<Row> unsettled = new LinkedHashSet<>();
  private final Set<Row> dirty = new LinkedHashSet<>();
  private final Set<Row> dirtyUsages = new LinkedHashSet<>();
  /** The active attempts of the leaves reviewed for this frame. */
  private final Map<CSQueue, Set<FiCaSchedulerApp>> active = new IdentityHashMap<>();
  private final QueueSection queues;
  private final Map<String, UserBudget> budgets = new HashMap<>();
  private final int ofUser;
  private long settledMs;
  private volatile Set<String> keyTypes = Collections.emptySet();

  ApplicationSection(int ofUser, QueueSection queues) {
    this.ofUser = ofUser;
    this.queues = queues;
  }

  /** Forgets all indices. */
  void reset() {
    rows.clear();
    byIndex.clear();
    unsettled.clear();
    dirty.clear();
    dirtyUsages.clear();
    active.clear();
    budgets.clear();
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
      row = new Row(byIndex.size(), app, budgets.computeIfAbsent(app.getUser(), user -> new UserBudget(ofUser)));
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
      row.user.asking--;
      row.askingKeys = 0;
    }
    queues.leave(row.user);
    if (row.end() == 0) {
      budgets.remove(row.app.getUser());
    }
    queues.touch(row.queue);
    row.state = Row.GONE;
    dirty.add(row);
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
    int state = row.state == Row.ACTIVE && !moved || isActive(row.app, queue) ? Row.ACTIVE : Row.WAITING;
    if (moved || level != row.priority || awaitingAm != row.awaitingAm || state != row.state) {
      row.priority = level;
      row.awaitingAm = awaitingAm;
      row.state = state;
      queues.touch(queue);
      dirty.add(row);
    }
    if (awaitingAm || state == Row.WAITING) {
      unsettled.add(row);
    } else {
      unsettled.remove(row);
    }
  }

  private void move(Row row, CSQueue queue) {
    int asking = row.askingKeys > 0 ? 1 : 0;
    if (row.user != null) {
      row.user.asking -= asking;
      queues.leave(row.user);
      touch(row);
    }
    row.queue = queue;
    row.queueIndex = queues.index(queue);
    row.user = queues.join(queue, row.app.getUser());
    row.user.asking += asking;
    touch(row);
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
   * Looks at attempts that wait for their activation or their AM container, if it is time to.
   *
   * @return those whose AM container was placed
   */
  List<Row> settle(Draft draft) {
    List<Row> gotAm = new ArrayList<>();
    if (draft.monotonicMs - settledMs >= SETTLE_MS) {
      settledMs = draft.monotonicMs;
      for (Row row : new ArrayList<>(unsettled)) {
        boolean awaited = row.awaitingAm;
        take(row);
        if (awaited && !row.awaitingAm) {
          gotAm.add(row);
        }
      }
    }
    return gotAm;
  }

  /** What an application and its queue use has changed, or may have. */
  void touch(Row row) {
    dirtyUsages.add(row);
    queues.touch(row.queue);
  }

  /** The headroom of an application may have changed. */
  void touchHeadroom(Row row) {
    dirtyUsages.add(row);
  }

  /** Writes the rows that are due; once a frame, after the queues' limits. */
  void write(Draft draft) {
    active.clear();
    Map<CSQueue, Map<Set<String>, long[]>> headrooms = new IdentityHashMap<>();
    dirtyUsages.stream().filter(Row::lives).forEach(row -> writeUsage(draft, row, headrooms));
    dirtyUsages.clear();
    for (Row row : dirty) {
      write(draft, row);
      if (!row.lives()) {
        byIndex.set(row.index, null);
        draft.release(row);
      }
    }
    dirty.clear();
    if (draft.snapshot) {
      budgets.values().forEach(UserBudget::refill);
    }
  }

  private static void write(Draft draft, Row row) {
    ApplicationAttemptId attempt = row.app.getApplicationAttemptId();
    ApplicationId id = attempt.getApplicationId();
    RMApp app = draft.context.getRMApps().get(id);
    String label = row.app.getAppSchedulingInfo().getDefaultNodeLabelExpression();
    // users can make up labels
    String partition = label != null && draft.partitions.contains(label.trim()) ? label.trim() : "";
    draft.section(Section.APPLICATIONS).add(row.index).add(id.getClusterTimestamp()).add(id.getId())
        .add(attempt.getAttemptId()).add(draft.name(app == null ? "" : app.getName(), row))
        .add(draft.name(app == null ? "" : app.getApplicationType(), row)).add(draft.name(row.app.getUser()))
        .add(row.queueIndex).add(draft.name(partition)).add(row.priority)
        .add(app == null ? 0 : app.getSubmitTime()).add(app == null ? 0 : app.getStartTime())
        .add(row.state).flag(row.awaitingAm).add(0).end();
  }

  /** {@code headrooms}: the values computed for this frame, by leaf and requested partitions. */
  private void writeUsage(Draft draft, Row row, Map<CSQueue, Map<Set<String>, long[]>> headrooms) {
    long[] headroom = headrooms.computeIfAbsent(row.queue, leaf -> new HashMap<>())
        .computeIfAbsent(row.user.partitions, some -> queues.headroom(row.queue, some, draft.resources()));
    long[] now = draft.section(Section.APPLICATION_USAGE).add(row.index).add(row.app.getLiveContainersMap().size())
        .amounts(row.app.getAppAttemptResourceUsage().getAllUsed()).amounts(headroom).rowIfOther(null);
    boolean due = row.usage == null;
    for (int i = 0; i < now.length && !due; i++) {
      // the headroom comes last, and counts if it grew
      due = now[i] > row.usage[i] || now[i] < row.usage[i] && i < now.length - headroom.length;
    }
    if (due) {
      row.usage = now;
      draft.section(Section.APPLICATION_USAGE).write(now);
    }
  }

  /** Writes the tags of a new application, with the requirements and preferences in its master's environment. */
  void writeTags(Draft draft, Row row) {
    RMApp app = draft.context.getRMApps().get(row.app.getApplicationId());
    if (app != null) {
      for (String tag : ApplicationTags.of(app)) {
        draft.section(Section.TAGS).add(row.index).add(draft.name(tag, row)).end();
      }
    }
  }

  /** The types, in upper case, of the applications whose keys the engine wants. */
  void keyTypes(Set<String> wanted) {
    keyTypes = wanted;
  }

  /**
   * Writes the key of an attempt if it is wanted and is not the one sent last. It is made from the password of the
   * attempt's AMRM token, which the attempt has too and which cannot be found from it. Without an engine that asks,
   * nothing is made and nothing written.
   */
  void writeKey(Draft draft, Row row) {
    RMApp app = keyTypes.isEmpty() ? null : draft.context.getRMApps().get(row.app.getApplicationId());
    if (app == null || !keyTypes.contains(app.getApplicationType().toUpperCase(Locale.ROOT))) {
      return;
    }
    RMAppAttempt attempt = app.getRMAppAttempt(row.app.getApplicationAttemptId());
    Token<AMRMTokenIdentifier> token = attempt == null ? null : attempt.getAMRMToken();
    if (token == null || token == row.keyToken) {
      return;
    }
    try {
      ByteBuffer key = ByteBuffer.wrap(key(token.getPassword())).order(ByteOrder.LITTLE_ENDIAN);
      draft.section(Section.KEYS).add(row.index).add(token.decodeIdentifier().getKeyId())
          .add(key.getLong()).add(key.getLong()).add(key.getLong()).add(key.getLong()).end();
      row.keyToken = token;
    } catch (IOException | GeneralSecurityException problem) {
      throw new IllegalStateException("no key can be made for " + row.app.getApplicationAttemptId(), problem);
    }
  }

  static byte[] key(byte[] password) throws GeneralSecurityException {
    Mac mac = Mac.getInstance(KEY_ALGORITHM);
    mac.init(new SecretKeySpec(password, KEY_ALGORITHM));
    return mac.doFinal(KEY_PURPOSE);
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
    private CSQueue queue;
    QueueSection.User user;
    private int queueIndex;
    private int priority;
    private int state = GONE;
    boolean awaitingAm;
    /** Also those that have gone and keep their indices. */
    final Map<SchedulerRequestKey, AskSection.Row> keys = new HashMap<>();
    /** Those that the latest look has found. */
    final List<AskSection.Row> current = new ArrayList<>();
    /** With null where a key has gone and its index may be used again. */
    final Indices<AskSection.Row> keysByIndex = new Indices<>(Indices.REST_MS);
    /** How many of its keys have outstanding requests. */
    int askingKeys;
    final UserBudget budget;
    /** The texts that it or others made up and that may be forgotten with it. */
    final Set<String> texts = new HashSet<>();
    private final Map<Cap, Integer> standing = new EnumMap<>(Cap.class);
    /** The limits that it exceeds. */
    final Set<Cap> exceeded = EnumSet.noneOf(Cap.class);
    private String capsShown;
    /** Whether its requests have changed since the latest look at them began. */
    boolean changed;
    /** A look at its requests that goes on in the next frame. */
    AskSection.Walk walk;
    /** Whether something was not written because its user has changed much lately. */
    boolean late;
    /** Whether it has names that no node and no rack has, or may have, since nodes came. */
    boolean unknownPlaces;
    /** Whether its blacklist has to be read. */
    boolean blacklistDue = true;
    final Set<String> blacklist = new HashSet<>();
    /** The row of its usage that was sent last. */
    private long[] usage;
    /** The last row sent of each container that has not ended. */
    final Map<ContainerId, long[]> containersAlive = new HashMap<>();
    /** Containers that were not as in the scheduler at the last look, and when that was. */
    Set<ContainerId> differing = Collections.emptySet();
    long differingMs;
    int turn;
    /** The token whose key was sent last. */
    private Token<AMRMTokenIdentifier> keyToken;

    Row(int index, FiCaSchedulerApp app, UserBudget budget) {
      budget.applications(1);
      this.budget = budget;
      this.index = index;
      this.app = app;
    }

    /** Whether its attempt has not gone. */
    boolean lives() {
      return state != GONE;
    }

    /** How much of something it may have in frames. */
    int room(Cap cap) {
      return budget.room(cap, standing.getOrDefault(cap, 0));
    }

    /**
     * A look has found so much of something, and has {@code ended} or not: what the look before has found stands until
     * then. {@code more}: there is more of it than it may have in frames.
     */
    void stands(Cap cap, int found, boolean more, boolean ended) {
      int before = standing.getOrDefault(cap, 0);
      int count = ended ? found : Math.max(before, found);
      standing.put(cap, count);
      budget.stands(cap, count - before);
      if (ended) {
        budget.spend(cap == Cap.REQUEST_KEYS ? 0 : count);
        exceeded.remove(cap);
      }
      if (ended && more) {
        exceeded.add(cap);
      }
    }

    /** Shows the exceeded limits in its diagnostics. */
    void reportCaps(Draft draft) {
      capsShown = Cap.report(draft.context, app, exceeded, capsShown);
    }

    /** It has gone; returns how many others its user has. */
    private int end() {
      standing.forEach((cap, count) -> budget.stands(cap, -count));
      budget.keeps(current.size() - keys.size());
      return budget.applications(-1);
    }

    /** Whether its news have to wait; in a snapshot they never do. */
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
        user.asking += change;
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes the engine's frames: takes the changes from the journal, and decides which sections read which part of the
 * scheduler. Remembers the meaning of indices, the last values sent, and the fates of the engine's proposals. Used by
 * the link thread only; takes none of the scheduler's locks for longer than one read.
 */
public final class Mirror implements Directory {
  /** More rows of fates than that before a frame make it a snapshot. */
  private static final int FATES_MAX = 1 << 18;
  /** So many request keys are looked at in turns a frame, on average; the other applications that are due wait. */
  private static final int SWEPT_KEYS = 300;

  private final SchedulerPort port;
  private final Journal journal;
  private final MirrorSettings settings;
  private final ClusterSection cluster = new ClusterSection();
  private final QueueSection queues = new QueueSection();
  private final NodeSection nodes;
  private final ApplicationSection applications;
  private final AskSection asks;
  private final ContainerSection containers;
  /** Rows of fates that the next frame has: sequence, position, count and fate. */
  private final List<long[]> fates = new ArrayList<>();
  private final Sweep applicationSweep;
  private final Sweep headroomSweep = new Sweep(100);
  /** Applications whose requests and blacklists wait until their users may change more, in turns. */
  private final Set<ApplicationSection.Row> late = new LinkedHashSet<>();
  /** The values sent since the last snapshot; null without an engine. */
  private Draft draft;
  private int keysLeft;
  private long epoch;
  private long sequence;
  private long baseMs;
  private volatile long snapshots;
  private int indicesAtSnapshot;

  /** A mirror that has to be {@link #start started} before it is used. */
  public Mirror(SchedulerPort port, Journal journal, MirrorSettings settings, Map<NodeId, Resource> held) {
    this.port = port;
    this.journal = journal;
    this.settings = settings;
    nodes = new NodeSection(settings, held);
    applications = new ApplicationSection(settings.ofUser, queues);
    asks = new AskSection(nodes);
    containers = new ContainerSection(nodes);
    applicationSweep = new Sweep(settings.applicationReviewMs);
  }

  /** Begins an epoch: sequence numbers restart, and the next frame is a snapshot. */
  public void start(long newEpoch) {
    epoch = newEpoch;
    sequence = 0;
    // Another engine: it has to ask for them itself.
    applications.keyTypes(Collections.emptySet());
    journal.snapshotNeeded();
  }

  /** Writes from now on the keys of attempts of applications of these types, in upper case. */
  public void keysFor(Set<String> types) {
    applications.keyTypes(types);
  }

  /** Makes the next frame a snapshot, in the same epoch. */
  public void snapshotNeeded() {
    journal.snapshotNeeded();
  }

  /**
   * Drops the values sent, since there is no engine any more, and makes the next frame a snapshot. Otherwise they would
   * keep applications, queues and containers that have gone in memory until the next conversation, if there is one.
   */
  public void hungUp() {
    journal.snapshotNeeded();
    fates.clear();
    forget();
  }

  private void forget() {
    draft = null;
    late.clear();
    asks.reset();
    applications.reset();
    nodes.reset();
    queues.reset();
  }

  /**
   * The next frames, at least one: what changed since the last call, or a snapshot.
   * All but the last are marked MORE. After an exception the next call writes a snapshot.
   *
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param monotonicMs {@code Time.monotonicNow()}, milliseconds
   * @throws io.treadle.shim.wire.FrameWriter.FrameTooSmallException if the queue tree alone does not fit in a frame
   */
  public List<byte[]> frames(long rmTimeMs, long monotonicMs, FrameOptions options) {
    if (indices() - indicesAtSnapshot > Math.max(settings.indexLimit, indicesAtSnapshot)
        || cluster.typesChanged(port.scheduler())) {
      journal.snapshotNeeded();
    }
    Journal.Changes changes = journal.take();
    boolean done = false;
    try {
      if (changes.snapshot) {
        forget();
        draft = new Draft(port, settings);
      }
      draft.begin(changes.snapshot, rmTimeMs, monotonicMs, options);
      if (changes.snapshot) {
        writeSnapshot();
      } else {
        writeChanges(changes);
      }
      List<byte[]> frames = draft.end(epoch, sequence + 1);
      sequence += frames.size();
      fates.clear();
      baseMs = monotonicMs;
      done = true;
      return frames;
    } finally {
      if (!done) {
        journal.snapshotNeeded();
      }
    }
  }

  private void writeSnapshot() {
    snapshots = snapshots + 1;
    cluster.snapshot(draft);
    nodes.reviewAll(draft);
    containers.forgetEnded(draft);
    // in the order in which they were submitted
    new TreeSet<>(draft.scheduler.getSchedulerApplications().keySet()).forEach(this::reviewApplication);
    queues.update(draft, true);
    applications.write(draft);
    indicesAtSnapshot = indices();
  }

  private void writeChanges(Journal.Changes changes) {
    nodes.update(draft, changes);
    if (nodes.takeNewPlaces()) {
      applications.rows().stream().filter(row -> row.unknownPlaces).forEach(row -> {
        row.unknownPlaces = false;
        row.changed = true;
        row.blacklistDue = true;
        late.add(row);
      });
    }
    changes.applications.forEach(this::reviewApplication);
    // after those that have gone: nothing may follow the row that says so
    late.removeIf(waiting -> !waiting.lives());
    new ArrayList<>(late).forEach(this::goOn);
    ApplicationAttemptId of = null;
    ApplicationSection.Row row = null;
    for (ContainerStep step : changes.steps) {
      // an attempt has one such object, and its containers often follow one another
      ApplicationAttemptId its = step.container.getApplicationAttemptId();
      row = its == of ? row : applications.row(its.getApplicationId());
      of = its;
      take(step, row);
    }
    asks.writePlaced(draft).forEach(this::reviewAsks);
    changes.asks.forEach((id, blacklist) -> takeAsks(applications.row(id), blacklist));
    applications.settle(draft).forEach(settled -> takeAsks(settled, true));
    sweep();
    if (queues.update(draft, changes.queues)) {
      cluster.update(draft);
    }
    applications.write(draft);
    fates.forEach(draft.section(Section.FATES)::write);
  }

  private void reviewApplication(ApplicationId id) {
    ApplicationSection.Row before = applications.row(id);
    ApplicationSection.Row fresh = applications.review(draft, id);
    if (before != null && before.lives()) {
      applications.touch(before);
    }
    if (fresh != null) {
      reviewAsks(fresh);
      applications.writeTags(draft, fresh);
      applications.writeKey(draft, fresh);
      containers.writeLive(draft, fresh);
    }
  }

  private void take(ContainerStep step, ApplicationSection.Row row) {
    containers.write(draft, step, row);
    if (row != null && step.kind != ContainerStep.LAUNCHED) {
      applications.touch(row);
      if (step.kind == ContainerStep.ALLOCATED) {
        asks.placed(row, step);
      }
    }
  }

  /** The requests of an application have changed, or its blacklist. */
  private void takeAsks(ApplicationSection.Row row, boolean blacklist) {
    if (row != null) {
      row.blacklistDue |= blacklist;
      reviewAsks(row);
      applications.touch(row);
    }
  }

  /** Looks at an application's requests and blacklist, now or when its user may change more. */
  private void reviewAsks(ApplicationSection.Row row) {
    row.changed = true;
    if (row.walk == null) {
      goOn(row);
    }
  }

  private void goOn(ApplicationSection.Row row) {
    if (!draft.snapshot && !row.budget.isReady(draft.monotonicMs)) {
      late.add(row);
      return;
    }
    // it goes on behind those that wait
    late.remove(row);
    if (row.walk == null) {
      row.changed = false;
      row.late = false;
      if (row.blacklistDue) {
        asks.reviewBlacklist(draft, row);
        row.blacklistDue = row.late;
      }
    }
    if (!asks.review(draft, row)) {
      late.add(row);
      return;
    }
    row.reportCaps(draft);
    if (row.late || row.changed) {
      late.add(row);
    }
  }

  /** Looks at some applications, in turns, whether or not anything was marked. */
  private void sweep() {
    int size = applications.size();
    keysLeft = Math.min(SWEPT_KEYS, keysLeft + SWEPT_KEYS);
    for (int left = applicationSweep.due(size, draft.monotonicMs); left > 0 && keysLeft > 0; left--) {
      ApplicationSection.Row row = applications.row(applicationSweep.next(size));
      if (row != null && row.lives()) {
        reviewApplication(row.app.getApplicationId());
        if (row.lives()) {
          containers.review(draft, row);
          reviewAsks(row);
          keysLeft -= row.current.size();
          applications.writeKey(draft, row);
        }
      }
    }
    for (int left = headroomSweep.due(size, draft.monotonicMs); left > 0; left--) {
      ApplicationSection.Row row = applications.row(headroomSweep.next(size));
      if (row != null && row.askingKeys > 0) {
        applications.touchHeadroom(row);
      }
    }
  }

  private int indices() {
    return draft == null ? 0 : draft.names() + nodes.size() + applications.size() + queues.size();
  }

  /** The sequence number of the last frame written; 0 before the first of an epoch. */
  public long sequence() {
    return sequence;
  }

  /** How many snapshots were written since this mirror was made. Any thread. */
  public long snapshots() {
    return snapshots;
  }

  @Override
  public int applications() {
    return applications.size();
  }

  @Override
  public int nodes() {
    return nodes.size();
  }

  @Override
  public ApplicationAttemptId application(int index) {
    ApplicationSection.Row row = applications.row(index);
    return row == null ? null : row.app.getApplicationAttemptId();
  }

  @Override
  public boolean isWhole(int application) {
    ApplicationSection.Row row = applications.row(application);
    return row == null || !row.exceeded.contains(Cap.LOCALITIES);
  }

  @Override
  public int requestKeys(int application) {
    ApplicationSection.Row row = applications.row(application);
    return row == null ? 0 : row.keysByIndex.size();
  }

  @Override
  public SchedulerRequestKey requestKey(int application, int key) {
    AskSection.Row row = applications.row(application).keysByIndex.get(key);
    return row == null ? null : row.key;
  }

  @Override
  public int[] askingKeys(int application) {
    ApplicationSection.Row row = applications.row(application);
    return row == null ? new int[0] : row.current.stream().mapToInt(request -> request.index).toArray();
  }

  @Override
  public NodeId node(int index) {
    return nodes.id(index);
  }

  @Override
  public long baseMs() {
    return baseMs;
  }

  @Override
  public void fate(long answered, int position, Fate fate) {
    if (fates.size() == FATES_MAX) {
      fates.clear();
      journal.snapshotNeeded();
    }
    long[] last = fates.isEmpty() ? null : fates.get(fates.size() - 1);
    if (last != null && last[0] == answered && last[1] + last[2] == position && last[3] == fate.code) {
      last[2]++;
    } else {
      fates.add(new long[] {answered, position, 1, fate.code});
    }
  }
}

package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import io.treadle.shim.engines.Served;
import io.treadle.shim.journal.Changes;
import io.treadle.shim.journal.ContainerStep;
import io.treadle.shim.journal.Feed;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.FrameHeader;
import io.treadle.shim.wire.FrameWriter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplication;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes what one engine is to know: takes what changed from its feed of the journal, reads the scheduler's state and
 * puts it into frames. Remembers the meaning of indices, what was sent last, and the fates of the engine's
 * proposals. Where several engines schedule, each has a mirror with all nodes and queues, but only those applications that
 * it serves. Used by the link thread only; takes none of the scheduler's locks for longer than one read.
 */
public final class Mirror implements Directory {
  /** When requests that the RM gives back are looked at for the second time. */
  private static final long ASKS_LATER_MS = 200;
  /** More fates than that before a frame make it a snapshot. */
  private static final int FATES_MAX = 1 << 18;

  private final SchedulerPort port;
  private final Feed feed;
  private final MirrorSettings settings;
  private final ResourceTypesSection types = new ResourceTypesSection();
  private final NodeSection nodes;
  private final QueueSection queues = new QueueSection();
  private final QueueLimitsSection limits = new QueueLimitsSection();
  private final UserSection users = new UserSection();
  private final SettingsSection options = new SettingsSection();
  private final Served served;
  private final ApplicationSection applications;
  private final UsageSection usages = new UsageSection(queues);
  private final RequestSection requests;
  private final BlacklistSection blacklists;
  private final KeySection keys = new KeySection();
  private final ContainerSection containers;
  private final Sweep applicationSweep;
  private final Sweep headroomSweep = new Sweep(100);
  private FrameWriter writer;
  private Names names;
  private Set<ApplicationId> asksLater = new HashSet<>();
  private final FateSection fates = new FateSection();
  private long asksLaterMs;
  private FrameOptions lastOptions;
  private long epoch;
  private long sequence;
  private final Bases bases = new Bases();
  private long snapshotSequence;
  private volatile long snapshots;
  private volatile long others;
  private int indicesAtSnapshot;
  /** That of {@link #served} as of which applications were looked at last. */
  private int generation;

  /** A mirror of the only engine; it has to be {@link #start started} before it is used. */
  public Mirror(SchedulerPort port, Journal journal, MirrorSettings settings) {
    this(port, journal, settings, Served.ALL);
  }

  /** A mirror of an engine that serves some applications. */
  public Mirror(SchedulerPort port, Journal journal, MirrorSettings settings, Served served) {
    this.port = port;
    this.served = served;
    applications = new ApplicationSection(queues, users, served);
    feed = journal.feed();
    this.settings = settings;
    nodes = new NodeSection(settings);
    requests = new RequestSection(nodes);
    blacklists = new BlacklistSection(applications, nodes);
    containers = new ContainerSection(nodes);
    applicationSweep = new Sweep(settings.applicationReviewMs);
  }

  /** Begins an epoch: sequence numbers start anew, and the next frame is a snapshot. */
  public void start(long newEpoch) {
    epoch = newEpoch;
    sequence = 0;
    snapshotSequence = 0;
    bases.clear();
    // Another engine: it has to ask for them itself.
    keys.types(Collections.emptySet());
    feed.snapshotNeeded();
  }

  /** Writes from now on the keys of attempts of applications of these types, in upper case. */
  public void keysFor(Set<String> types) {
    keys.types(types);
  }

  /** Makes the next frame a snapshot, in the same epoch. */
  public void snapshotNeeded() {
    feed.snapshotNeeded();
  }

  /**
   * Forgets what was sent, since nobody listens any more, and makes the next frame a snapshot. What stays would keep
   * applications, queues and containers that have gone in memory until the next conversation, if there is one.
   */
  public void hungUp() {
    feed.snapshotNeeded();
    writer = null;
    names = null;
    fates.reset();
    asksLater.clear();
    forget();
    applications.reset();
    nodes.reset();
    queues.reset();
    limits.reset();
  }

  /** What a snapshot has anew, but for what its own section forgets when it writes it. */
  private void forget() {
    users.reset();
    requests.reset();
    usages.reset();
    containers.reset();
  }

  /**
   * The next frames, at least one: what changed since the last call, or a snapshot; none if that must not be and is due.
   * All but the last are marked MORE. After an exception the next call writes a snapshot.
   *
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param monotonicMs {@code Time.monotonicNow()}, milliseconds
   * @throws io.treadle.shim.wire.FrameTooSmallException if the queue tree alone does not fit in a frame
   */
  public List<byte[]> frames(long rmTimeMs, long monotonicMs, FrameOptions frameOptions) {
    if (indices() - indicesAtSnapshot > Math.max(settings.indexLimit, indicesAtSnapshot)
        || types.changed(port.scheduler())) {
      feed.snapshotNeeded();
    }
    // before anything is read: what is committed meanwhile may not be in the frame
    long commits = served.commits();
    Changes changes = feed.take();
    if (changes.snapshot() && frameOptions.noSnapshot) {
      feed.snapshotNeeded();
      return Collections.emptyList();
    }
    int before = generation;
    // first: should it change meanwhile, all is looked at again with the next frame
    generation = served.generation();
    boolean done = false;
    try {
      if (changes.snapshot()) {
        snapshot(rmTimeMs, monotonicMs, frameOptions);
      } else {
        delta(draft(false, rmTimeMs, monotonicMs), changes, generation != before, frameOptions);
      }
      lastOptions = frameOptions;
      List<byte[]> frames = writer.frames(new FrameHeader(epoch, changes.snapshot(), frameOptions.observe, rmTimeMs,
          frameOptions.configuration, frameOptions.limit), sequence + 1);
      sequence += frames.size();
      fates.clear();
      bases.wrote(sequence, changes.snapshot(), monotonicMs, commits);
      if (changes.snapshot()) {
        snapshotSequence = sequence;
      }
      done = true;
      return frames;
    } finally {
      if (!done) {
        feed.snapshotNeeded();
      }
    }
  }

  /** Whether an engine may have decided on a frame: it is in memory, and its indices mean what they meant. */
  public boolean mayBaseOn(long base) {
    return bases.has(base);
  }

  /** Whether the last frame was a snapshot. */
  public boolean isFresh() {
    return sequence == snapshotSequence;
  }

  /** The engine decided on a frame, and will not on an earlier one; {@link #baseMs} is as of it from now on. */
  public void decidedOn(long base) {
    bases.decidedOn(base);
  }

  private Draft draft(boolean snapshot, long rmTimeMs, long monotonicMs) {
    return new Draft(writer, names, port.scheduler(), port.rmContext(), settings, snapshot, rmTimeMs, monotonicMs);
  }

  private void snapshot(long rmTimeMs, long monotonicMs, FrameOptions frameOptions) {
    writer = new FrameWriter(ResourceTypesSection.count(), settings.frameMaxBytes);
    names = new Names(writer);
    Draft draft = draft(true, rmTimeMs, monotonicMs);
    snapshots = snapshots + 1;
    asksLater.clear();
    forget();
    applicationSweep.reset(monotonicMs);
    headroomSweep.reset(monotonicMs);
    types.write(draft);
    options.snapshot(draft, frameOptions);
    queues.reset();
    nodes.snapshot(draft);
    Set<ApplicationId> alive = new HashSet<>();
    for (ApplicationRow row : applications.snapshot(draft)) {
      alive.add(row.app.getApplicationId());
      writeAll(draft, row);
      containers.writeLive(draft, row);
    }
    alive.addAll(applications.elsewhere());
    containers.keepOnly(alive);
    queues.update(draft);
    limits.review(draft, queues.rows());
    finish(draft);
    indicesAtSnapshot = indices();
  }

  private void writeAll(Draft draft, ApplicationRow row) {
    requests.review(draft, row);
    blacklists.review(draft, row);
    blacklists.writeTags(draft, row);
    keys.review(draft, row);
    usages.touch(row);
    users.touch(row.queue);
    limits.touch(queues.row(row.queue));
  }

  private void delta(Draft draft, Changes changes, boolean otherOwners, FrameOptions frameOptions) {
    nodes.update(draft, changes.nodes(), changes.attributes(), changes.allNodes());
    nodes.others(draft, changes.othersCommits());
    applications.begin();
    List<ContainerStep> waited = containers.begin();
    Set<ApplicationId> all = draft.scheduler().getSchedulerApplications().keySet();
    for (ApplicationId id : otherOwners ? new TreeSet<>(all) : Collections.<ApplicationId>emptySet()) {
      reviewApplication(draft, id);
    }
    for (ApplicationId id : changes.applications()) {
      reviewApplication(draft, id);
    }
    forgetMoved();
    waited.forEach(step -> take(draft, step));
    for (ContainerStep step : changes.steps()) {
      take(draft, step);
    }
    containers.unseenEnds(draft).forEach(step -> take(draft, step));
    requests.writePlaced(draft);
    changes.asks().forEach(id -> reviewAsks(draft, id));
    laterAsks(draft, changes.asksLater());
    changes.usages().forEach(id -> touch(draft, id));
    settle(draft, changes);
    sweep(draft);
    reviewQueues(draft, changes, frameOptions);
    fates.write(draft);
    finish(draft);
  }

  private void finish(Draft draft) {
    users.update(draft, queues);
    usages.update(draft);
    applications.write(draft);
  }

  private void reviewApplication(Draft draft, ApplicationId id) {
    ApplicationRow fresh = applications.review(draft, id);
    if (fresh != null) {
      writeAll(draft, fresh);
      if (fresh.takenOver) {
        containers.writeLive(draft, fresh);
      }
    } else if (applications.row(id) == null && !applications.isElsewhere(id)) {
      containers.forget(id);
    }
  }

  private void forgetMoved() {
    Set<ApplicationId> moved = applications.takeMoved();
    if (!moved.isEmpty()) {
      others = others + moved.size();
      containers.moved(moved);
    }
  }

  private void take(Draft draft, ContainerStep step) {
    ApplicationAttemptId attempt = step.container.getApplicationAttemptId();
    if (applications.isElsewhere(attempt.getApplicationId())) {
      containers.elsewhere(step);
      if (step.kind != ContainerStep.Kind.LAUNCHED) {
        touch(draft, attempt.getApplicationId());
      }
      if (step.kind == ContainerStep.Kind.ALLOCATED && step.byTreadle) {
        nodes.others(draft, Collections.singletonMap(step.node, 1));
      }
      return;
    }
    ApplicationRow row = applications.row(attempt.getApplicationId());
    containers.write(draft, step, row != null && row.app.getApplicationAttemptId().equals(attempt) ? row : null);
    if (row != null) {
      if (step.kind == ContainerStep.Kind.ALLOCATED) {
        requests.placed(row, step.requestKey, step.node);
      }
      if (step.kind != ContainerStep.Kind.LAUNCHED) {
        touch(row);
      }
    }
  }

  private void touch(Draft draft, ApplicationId id) {
    ApplicationRow row = applications.row(id);
    if (row != null) {
      touch(row);
    } else if (applications.isElsewhere(id)) {
      touchQueue(draft, id);
    }
  }

  private void touch(ApplicationRow row) {
    usages.touch(row);
    users.touch(row.queue);
    limits.touch(queues.row(row.queue));
  }

  /** Another engine's application changed what is true of its leaf. */
  private void touchQueue(Draft draft, ApplicationId id) {
    SchedulerApplication<FiCaSchedulerApp> known = draft.scheduler().getSchedulerApplications().get(id);
    if (known != null && known.getQueue() instanceof CSQueue) {
      users.touch((CSQueue) known.getQueue());
      limits.touch(queues.row((CSQueue) known.getQueue()));
    }
  }

  private void reviewAsks(Draft draft, ApplicationId id) {
    ApplicationRow row = applications.row(id);
    if (row != null && !served.serves(row.app)) {
      // what it asks for has made it another engine's
      reviewApplication(draft, id);
      forgetMoved();
      row = null;
    }
    if (row != null) {
      requests.review(draft, row);
      users.touch(row.queue);
      limits.touch(queues.row(row.queue));
    } else if (applications.isElsewhere(id)) {
      touchQueue(draft, id);
    }
  }

  private void laterAsks(Draft draft, Set<ApplicationId> marked) {
    if (!asksLater.isEmpty() && draft.monotonicMs() - asksLaterMs >= ASKS_LATER_MS) {
      asksLater.forEach(id -> reviewAsks(draft, id));
      asksLater.clear();
    }
    if (!marked.isEmpty()) {
      asksLater.addAll(marked);
      asksLaterMs = draft.monotonicMs();
    }
  }

  private void settle(Draft draft, Changes changes) {
    List<ApplicationRow> gotAm = new ArrayList<>();
    applications.settle(draft, gotAm);
    gotAm.forEach(row -> blacklists.review(draft, row));
    for (ApplicationId id : changes.blacklists()) {
      ApplicationRow row = applications.row(id);
      if (row != null) {
        blacklists.review(draft, row);
      }
    }
  }

  private void sweep(Draft draft) {
    int size = applications.size();
    for (int left = applicationSweep.due(size, draft.monotonicMs()); left > 0; left--) {
      ApplicationRow row = applications.row(applicationSweep.next(size));
      if (row != null && row.isServed()) {
        reviewApplication(draft, row.app.getApplicationId());
        if (row.isServed()) {
          requests.review(draft, row);
          blacklists.review(draft, row);
          keys.review(draft, row);
          usages.touch(row);
        }
      }
    }
    for (int left = headroomSweep.due(size, draft.monotonicMs()); left > 0; left--) {
      ApplicationRow row = applications.row(headroomSweep.next(size));
      if (row != null && row.askingKeys > 0) {
        usages.touch(row);
      }
    }
  }

  private void reviewQueues(Draft draft, Changes changes, FrameOptions frameOptions) {
    if (changes.queues()) {
      queues.markChanged();
    }
    boolean walked = queues.update(draft);
    if (walked || !frameOptions.mode.equals(lastOptions.mode) || frameOptions.leaseMs != lastOptions.leaseMs) {
      options.update(draft, frameOptions);
    }
    if (walked) {
      limits.review(draft, queues.rows());
      queues.rows().stream().filter(row -> row.leaf).forEach(row -> users.touch(row.queue));
    } else {
      limits.update(draft);
    }
  }

  private int indices() {
    return names == null ? 0 : names.size() + nodes.size() + applications.size() + requests.size() + queues.size();
  }

  /** The sequence number of the last frame written; 0 before the first of an epoch. */
  public long sequence() {
    return sequence;
  }

  /** How many snapshots were written since this mirror was made. Any thread. */
  public long snapshots() {
    return snapshots;
  }

  /** How many applications were sent as moved to other engines. Any thread. */
  public long moved() {
    return others;
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
    ApplicationRow row = applications.row(index);
    return row == null ? null : row.app.getApplicationAttemptId();
  }

  @Override
  public int requestKeys(int application) {
    ApplicationRow row = applications.row(application);
    return row == null ? 0 : row.keysByIndex.size();
  }

  @Override
  public SchedulerRequestKey requestKey(int application, int key) {
    return applications.row(application).keysByIndex.get(key).key;
  }

  @Override
  public NodeId node(int index) {
    return nodes.id(index);
  }

  @Override
  public long baseMs() {
    return bases.latest().ms;
  }

  @Override
  public long baseCommits() {
    return bases.latest().commits;
  }

  @Override
  public void fate(long answered, int position, Fate fate) {
    if (fates.size() == FATES_MAX) {
      fates.clear();
      feed.snapshotNeeded();
    }
    fates.add(answered, position, fate);
  }
}

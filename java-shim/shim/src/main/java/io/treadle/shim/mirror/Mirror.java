// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.EngineView;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.journal.Changes;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.FrameHeader;
import io.treadle.shim.wire.FrameWriter;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes the engine's frames: takes what changed from the journal, and has the {@link Sections} read the scheduler's
 * state. Remembers the meaning of indices, what was sent last, and the fates of the engine's proposals. Used by the
 * link thread only; takes none of the scheduler's locks for longer than one read.
 */
public final class Mirror implements Directory {
  /** More fates than that before a frame make it a snapshot. */
  private static final int FATES_MAX = 1 << 18;

  private final SchedulerPort port;
  private final Journal journal;
  private final MirrorSettings settings;
  private final Sections sections;
  private FrameWriter writer;
  private Names names;
  private final FateSection fates = new FateSection();
  private long epoch;
  private long sequence;
  private long baseMs;
  private volatile long snapshots;
  private int indicesAtSnapshot;

  /** A mirror that has to be {@link #start started} before it is used. */
  public Mirror(SchedulerPort port, Journal journal, MirrorSettings settings, EngineView view) {
    this.port = port;
    this.journal = journal;
    this.settings = settings;
    sections = new Sections(settings, view);
  }

  /** Begins an epoch: sequence numbers start anew, and the next frame is a snapshot. */
  public void start(long newEpoch) {
    epoch = newEpoch;
    sequence = 0;
    // Another engine: it has to ask for them itself.
    sections.keys.types(Collections.emptySet());
    journal.snapshotNeeded();
  }

  /** Writes from now on the keys of attempts of applications of these types, in upper case. */
  public void keysFor(Set<String> types) {
    sections.keys.types(types);
  }

  /** Makes the next frame a snapshot, in the same epoch. */
  public void snapshotNeeded() {
    journal.snapshotNeeded();
  }

  /**
   * Forgets what was sent, since nobody listens any more, and makes the next frame a snapshot. What stays would keep
   * applications, queues and containers that have gone in memory until the next conversation, if there is one.
   */
  public void hungUp() {
    journal.snapshotNeeded();
    writer = null;
    names = null;
    fates.reset();
    sections.reset();
  }

  /**
   * The next frames, at least one: what changed since the last call, or a snapshot.
   * All but the last are marked MORE. After an exception the next call writes a snapshot.
   *
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param monotonicMs {@code Time.monotonicNow()}, milliseconds
   * @throws io.treadle.shim.wire.FrameTooSmallException if the queue tree alone does not fit in a frame
   */
  public List<byte[]> frames(long rmTimeMs, long monotonicMs, FrameOptions frameOptions) {
    if (indices() - indicesAtSnapshot > Math.max(settings.indexLimit, indicesAtSnapshot)
        || sections.cluster.typesChanged(port.scheduler())) {
      journal.snapshotNeeded();
    }
    Changes changes = journal.take();
    boolean done = false;
    try {
      if (changes.snapshot()) {
        snapshot(rmTimeMs, monotonicMs, frameOptions);
      } else {
        delta(draft(false, rmTimeMs, monotonicMs), changes, frameOptions);
      }
      List<byte[]> frames = writer.frames(new FrameHeader(epoch, changes.snapshot(), frameOptions.observe, rmTimeMs,
          frameOptions.configuration, frameOptions.limit), sequence + 1);
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

  private Draft draft(boolean snapshot, long rmTimeMs, long monotonicMs) {
    return new Draft(writer, names, port.scheduler(), port.rmContext(), settings, snapshot, rmTimeMs, monotonicMs);
  }

  private void snapshot(long rmTimeMs, long monotonicMs, FrameOptions frameOptions) {
    writer = new FrameWriter(ClusterSection.resources(), settings.frameMaxBytes);
    names = new Names(writer);
    snapshots = snapshots + 1;
    sections.snapshot(draft(true, rmTimeMs, monotonicMs), frameOptions);
    indicesAtSnapshot = indices();
  }

  private void delta(Draft draft, Changes changes, FrameOptions frameOptions) {
    sections.delta(draft, changes, frameOptions);
    fates.write(draft);
  }

  private int indices() {
    return names == null ? 0 : names.size() + sections.indices();
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
    return sections.applications.size();
  }

  @Override
  public int nodes() {
    return sections.nodes.size();
  }

  @Override
  public ApplicationAttemptId application(int index) {
    ApplicationSection.Row row = sections.applications.row(index);
    return row == null ? null : row.app.getApplicationAttemptId();
  }

  @Override
  public int requestKeys(int application) {
    ApplicationSection.Row row = sections.applications.row(application);
    return row == null ? 0 : row.keysByIndex.size();
  }

  @Override
  public SchedulerRequestKey requestKey(int application, int key) {
    RequestSection.Row row = sections.applications.row(application).keysByIndex.get(key);
    return row == null ? null : row.key;
  }

  @Override
  public NodeId node(int index) {
    return sections.nodes.id(index);
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
    fates.add(answered, position, fate);
  }
}

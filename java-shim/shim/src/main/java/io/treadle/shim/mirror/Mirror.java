package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.wire.Directory;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes what the engine is to know: drains the journal, reads the scheduler's state and puts what changed into
 * frames. Remembers which index stands for what, and what was sent last. Used by the link thread only; takes none of
 * the scheduler's locks for longer than one read.
 */
public final class Mirror implements Directory {
  private final SchedulerPort port;
  private final Journal journal;
  private final MirrorSettings settings;
  private long sequence;

  /** A mirror that has to be {@link #start started} before it is used. */
  public Mirror(SchedulerPort port, Journal journal, MirrorSettings settings) {
    this.port = port;
    this.journal = journal;
    this.settings = settings;
  }

  /** Begins an epoch: sequence numbers start anew, and the next frame is a snapshot. */
  public void start(long epoch) {
    sequence = 0;
    journal.snapshotNeeded();
  }

  /** Makes the next frame a snapshot, in the same epoch. */
  public void snapshotNeeded() {
    journal.snapshotNeeded();
  }

  /**
   * The next frames, at least one: what changed since the last call, or a snapshot. All but the last are marked MORE.
   *
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param monotonicMs {@code Time.monotonicNow()}, milliseconds
   */
  public List<byte[]> frames(long rmTimeMs, long monotonicMs, FrameOptions options) {
    throw new UnsupportedOperationException("being written; " + port + settings);
  }

  /** The sequence number of the last frame written; 0 before the first of an epoch. */
  public long sequence() {
    return sequence;
  }

  /** How many snapshots were written since this mirror was made. */
  public long snapshots() {
    return 0;
  }

  @Override
  public int applications() {
    return 0;
  }

  @Override
  public int nodes() {
    return 0;
  }

  @Override
  public ApplicationAttemptId application(int index) {
    return null;
  }

  @Override
  public int requestKeys(int application) {
    return 0;
  }

  @Override
  public SchedulerRequestKey requestKey(int application, int key) {
    return null;
  }

  @Override
  public NodeId node(int index) {
    return null;
  }
}

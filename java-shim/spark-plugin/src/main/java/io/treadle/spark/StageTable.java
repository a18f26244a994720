// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The stages of an application. Adaptive execution submits a query as several jobs, each of which lists the previous
 * stages again, with other IDs, and skips them: stages with an equal set of RDD IDs are one. Thread-safe.
 */
final class StageTable {
  /** Stages that are counted; a profile holds no more. */
  static final int STAGES_MAX = 1_000;
  /** Ids of stages that are known; of others nothing is counted. */
  static final int IDS_MAX = 10_000;
  /** RDD ids that stages are known by, in all. */
  static final int RDDS_MAX = 1_000_000;

  private final List<StageStatistics> stages = new ArrayList<>();
  private final Map<Integer, StageStatistics> byId = new HashMap<>();
  private final Map<IntBuffer, StageStatistics> byRdds = new HashMap<>();
  private final Map<StageStatistics, Integer> numbers = new HashMap<>();
  private int rddsKept;
  private long left;

  /** A stage as it was at a time, to be sent. */
  static final class Row {
    private final StageStatistics stage;
    private final int version;
    private final byte[] bytes;

    private Row(StageStatistics stage, byte[] bytes) {
      this.stage = stage;
      this.version = stage.version();
      this.bytes = bytes;
    }

    byte[] bytes() {
      return bytes;
    }
  }

  /**
   * Takes that a stage is listed.
   *
   * @return the stage; null if there are too many
   */
  synchronized StageStatistics list(int id, String name, int tasks, int[] rdds, int[] parents) {
    int[] sorted = rdds.clone();
    Arrays.sort(sorted);
    IntBuffer identity = IntBuffer.wrap(sorted);
    StageStatistics stage = byId.get(id);
    if (stage == null && rdds.length > 0) {
      stage = byRdds.get(identity);
    }
    boolean full = byId.size() >= IDS_MAX || rddsKept + rdds.length > RDDS_MAX;
    if (stage == null && (full || stages.size() >= STAGES_MAX)) {
      left++;
      return null;
    }
    if (stage == null) {
      stage = new StageStatistics(stages.size(), id, name);
      numbers.put(stage, stages.size());
      stages.add(stage);
    }
    if (!full) {
      byId.put(id, stage);
      if (byRdds.putIfAbsent(identity, stage) == null) {
        rddsKept += rdds.length;
      }
    }
    stage.listed(id, tasks, parents);
    return stage;
  }

  /** Takes that tasks of a stage run. */
  synchronized void ran(StageStatistics stage) {
    stage.ran();
  }

  /** Takes that an attempt of a task has ended. */
  synchronized void ended(int stage, int task, StageStatistics.End end, boolean copy, long tookMs, long readBytes) {
    StageStatistics known = byId.get(stage);
    if (known != null) {
      known.ended(task, end, copy, tookMs, readBytes);
    }
  }

  /** The stages that have something new to report. */
  synchronized List<Row> news() throws IOException {
    List<Row> rows = new ArrayList<>();
    for (StageStatistics stage : stages) {
      if (stage.isNews()) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        stage.write(new DataOutputStream(bytes), parent -> numbers.get(byId.get(parent)));
        rows.add(new Row(stage, bytes.toByteArray()));
      }
    }
    return rows;
  }

  /** Notes that rows have been sent. */
  synchronized void sent(List<Row> rows) {
    for (Row row : rows) {
      row.stage.sent(row.version);
    }
  }

  /** Notes that the listener has forgotten everything. */
  synchronized void forgotten() {
    for (StageStatistics stage : stages) {
      stage.sent(-1);
    }
  }

  /** How often a stage was listed for which there was no room. */
  synchronized long left() {
    return left;
  }
}

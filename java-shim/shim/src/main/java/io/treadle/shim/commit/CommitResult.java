// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.Log;
import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import java.util.Collections;
import org.apache.hadoop.yarn.api.records.ContainerId;

/** The fate of each proposal of one answer, and what its commits met besides. */
public final class CommitResult {
  private static final Log LOG = new Log(Committer.class);

  private final Fate[] fates;
  private final ContainerId[] containers;
  private int takenBack;
  private String error;

  CommitResult(int size) {
    this.fates = new Fate[size];
    this.containers = new ContainerId[size];
  }

  /** The number of proposals. */
  public int size() {
    return fates.length;
  }

  /** The fate of the proposal at a position in [0, size()). */
  public Fate fate(int position) {
    return fates[position];
  }

  /** The container that a proposal became, or null if it was not committed. */
  public ContainerId container(int position) {
    return containers[position];
  }

  /** How many proposals had this fate. */
  public int count(Fate fate) {
    return Collections.frequency(Arrays.asList(fates), fate);
  }

  /** How many transactions were committed in part and taken back before their AM heard of it. */
  public int takenBack() {
    return takenBack;
  }

  /** The text of the last exception that became {@link Fate#INTERNAL_ERROR}, or null; it is in the log. */
  public String error() {
    return error;
  }

  void countTakenBack() {
    takenBack++;
  }

  void failed(String doing, Throwable thrown) {
    LOG.failure(doing, thrown);
    error = thrown.toString();
  }

  /** Decides on a proposal, for good or until it is taken back. */
  void set(int position, Fate fate, ContainerId container) {
    fates[position] = fate;
    containers[position] = container;
  }

  void setAll(int from, int to, Fate fate) {
    for (int position = from; position < to; position++) {
      set(position, fate, null);
    }
  }
}

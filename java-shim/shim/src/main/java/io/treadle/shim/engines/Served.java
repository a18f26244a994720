package io.treadle.shim.engines;

import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/** What one engine serves. Any thread; takes none of the scheduler's locks. */
public interface Served {
  /** Of an engine that is alone: everything. */
  Served ALL = new Served() {
    @Override
    public boolean serves(FiCaSchedulerApp app) {
      return true;
    }

    @Override
    public int generation() {
      return 0;
    }
  };

  /** The engine's number, below {@link NodeCommits#NO_ENGINE}. */
  default int number() {
    return 0;
  }

  /** Whether others schedule too. */
  default boolean several() {
    return false;
  }

  /** Of several that wait to commit the one with the highest is first. */
  default int precedence() {
    return 0;
  }

  /** The largest part of a partition that the engine's applications may use. */
  default double claim() {
    return 1;
  }

  /** How much was committed by anybody so far; 0 where nobody counts. */
  default long commits() {
    return 0;
  }

  /** Whether it matters to the engine that others have committed on a node after the {@code since}-th of all commits. */
  default boolean changed(NodeId node, long since) {
    return false;
  }

  /** Whether the engine serves an application now. */
  boolean serves(FiCaSchedulerApp app);

  /** Another number whenever other engines serve other applications than before. */
  int generation();
}

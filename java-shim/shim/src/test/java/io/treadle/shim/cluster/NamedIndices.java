// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** A directory that gives out indices as a test names things. */
public class NamedIndices implements Directory {
  private final List<ApplicationAttemptId> applications = new ArrayList<>();
  private final List<List<SchedulerRequestKey>> keys = new ArrayList<>();
  private final List<NodeId> nodes = new ArrayList<>();
  private long baseLaterMs;
  private boolean partial;

  /** The index of an attempt; null gets a new index of something that has gone. */
  public int of(ApplicationAttemptId attempt) {
    int index = attempt == null ? -1 : applications.indexOf(attempt);
    if (index < 0) {
      applications.add(attempt);
      keys.add(new ArrayList<>());
      index = applications.size() - 1;
    }
    return index;
  }

  /** The index of a request key of an attempt. */
  public int of(ApplicationAttemptId attempt, SchedulerRequestKey key) {
    List<SchedulerRequestKey> known = keys.get(of(attempt));
    if (!known.contains(key)) {
      known.add(key);
    }
    return known.indexOf(key);
  }

  /** The index of a node; null gets a new index of something that has gone. */
  public int of(NodeId node) {
    int index = node == null ? -1 : nodes.indexOf(node);
    if (index < 0) {
      nodes.add(node);
      index = nodes.size() - 1;
    }
    return index;
  }

  /** Pretends that the engine's last frame was some milliseconds after now. */
  public void baseLater(long ms) {
    baseLaterMs = ms;
  }

  /** Pretends that no application's names of nodes and racks were all sent. */
  public void partial() {
    partial = true;
  }

  @Override
  public boolean isWhole(int application) {
    return !partial;
  }

  @Override
  public long baseMs() {
    return Time.monotonicNow() + baseLaterMs;
  }

  @Override
  public void fate(long sequence, int position, Fate fate) {
    // there is no engine
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
    return applications.get(index);
  }

  @Override
  public int requestKeys(int application) {
    return keys.get(application).size();
  }

  @Override
  public SchedulerRequestKey requestKey(int application, int key) {
    return keys.get(application).get(key);
  }

  @Override
  public NodeId node(int index) {
    return nodes.get(index);
  }
}

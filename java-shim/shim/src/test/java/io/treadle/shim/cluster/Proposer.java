// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import io.treadle.shim.commit.CommitResult;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** An engine whose mind the test makes up: names what it proposes, and has it committed or judged. */
public final class Proposer {
  /** Long enough for any test to go by without a heartbeat. */
  public static final long NODE_STALE_MS = 600_000;

  /** What proposals met since a test began; tests of a JVM run one after another. */
  private static final Set<Fate> FATES = EnumSet.noneOf(Fate.class);

  private final NamedIndices indices = new NamedIndices();
  private final List<int[]> proposals = new ArrayList<>();
  private final Committer committer;
  private final Map<NodeId, Resource> held = new HashMap<>();
  private int limit = Integer.MAX_VALUE;
  private BooleanSupplier mayCommit = () -> true;
  private BooleanSupplier isOver = () -> false;

  /** Proposes to one cluster, with batches of 48. */
  public Proposer(ClusterFixture cluster) {
    this(cluster, new CommitSettings(48, NODE_STALE_MS, Time::monotonicNow));
  }

  /** Proposes to one cluster. */
  public Proposer(ClusterFixture cluster, CommitSettings settings) {
    committer = new Committer(cluster.scheduler(), settings, held);
  }

  /** The committer. */
  public Committer committer() {
    return committer;
  }

  /** The amounts held on nodes. */
  public Map<NodeId, Resource> held() {
    return held;
  }

  /** The indices given out so far. */
  public NamedIndices indices() {
    return indices;
  }

  /** How many proposals of an answer are looked at. */
  public Proposer limit(int most) {
    limit = most;
    return this;
  }

  /** Asked before each batch. */
  public Proposer mayCommit(BooleanSupplier lease) {
    mayCommit = lease;
    return this;
  }

  /** When the time to commit an answer is over. */
  public Proposer isOver(BooleanSupplier over) {
    isOver = over;
    return this;
  }

  /** Proposes a container for the only request key of an application that is at a priority. */
  public Proposer add(FiCaSchedulerApp app, int priority, MockNM node) {
    return add(app, key(app, priority), node.getNodeId());
  }

  /** Proposes a container. */
  public Proposer add(FiCaSchedulerApp app, SchedulerRequestKey key, NodeId node) {
    return add(indices.of(app.getApplicationAttemptId()), indices.of(app.getApplicationAttemptId(), key),
        indices.of(node));
  }

  /** Proposes whatever these indices may be. */
  public Proposer add(int application, int key, int node) {
    proposals.add(new int[] {application, key, node});
    return this;
  }

  /** Proposes a container several times. */
  public Proposer add(int times, FiCaSchedulerApp app, int priority, MockNM node) {
    SchedulerRequestKey key = key(app, priority);
    for (int i = 0; i < times; i++) {
      add(app, key, node.getNodeId());
    }
    return this;
  }

  /** Has everything proposed since the last time committed. */
  public CommitResult commit() {
    return seen(committer.commit(Answers.of(taken()), indices, limit, mayCommit, isOver));
  }

  /** Has everything proposed since the last time committed as one transaction. */
  public CommitResult commitTogether() {
    return seen(committer.commit(Answers.together(taken()), indices, limit, mayCommit, isOver));
  }

  /** Has everything proposed since the last time judged. */
  public CommitResult judge() {
    return seen(committer.judge(Answers.of(taken()), indices, limit));
  }

  private static CommitResult seen(CommitResult result) {
    for (int position = 0; position < result.size(); position++) {
      FATES.add(result.fate(position));
    }
    return result;
  }

  /** All fates that proposals of any proposer met since {@link #forgetFates}. */
  public static Set<Fate> fates() {
    return EnumSet.copyOf(FATES);
  }

  /** Begins a test. */
  public static void forgetFates() {
    FATES.clear();
  }

  private int[][] taken() {
    int[][] all = proposals.toArray(new int[0][]);
    proposals.clear();
    return all;
  }

  /** The request key of an application at a priority. */
  public static SchedulerRequestKey key(FiCaSchedulerApp app, int priority) {
    for (SchedulerRequestKey key : app.getSchedulerKeys()) {
      if (key.getPriority().getPriority() == priority) {
        return key;
      }
    }
    throw new IllegalStateException("no ask of priority " + priority + " in " + app.getSchedulerKeys());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** AMs get the headroom of now: not what was left at the switch, and not what a parent's maximum forbids. */
class HeadroomTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private MockNM node;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void start(ClusterFixture.Builder description, boolean legacy) throws Exception {
    cluster = description.site(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_MB, "20480")
        .set("legacy-queue-mode.enabled", Boolean.toString(legacy)).start();
    node = cluster.node("one", 20 * 1024, 20);
  }

  private Resource corrected(FiCaSchedulerApp app) {
    Allocation allocation = cluster.scheduler().allocate(app.getApplicationAttemptId(), Collections.emptyList(),
        Collections.emptyList(), Collections.emptyList(), null, null, new ContainerUpdates());
    assertSame(allocation, Headroom.correct(cluster.scheduler(), allocation, app.getApplicationAttemptId()));
    return allocation.getResourceLimit();
  }

  private long reportedMb(FiCaSchedulerApp app) {
    return corrected(app).getMemorySize();
  }

  /**
   * The stock scheduler places the last container when the sibling has filled the cluster, then an engine takes over
   * and the sibling ends. With the limit of that moment the MapReduce AM would hear of no headroom for ever, and kill
   * its reducers for a map.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void siblingThatHasEndedIsForgotten(boolean legacy) throws Exception {
    start(ClusterFixture.cluster(), legacy);
    MockAM am = cluster.startAm(cluster.submit("a", "ann", 1024), node);
    FiCaSchedulerApp app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    MockAM sibling = cluster.startAm(cluster.submit("b", "bob", 1024), node);
    FiCaSchedulerApp other = cluster.scheduler().getApplicationAttempt(sibling.getApplicationAttemptId());
    sibling.allocate("*", 17 * 1024, 1, Collections.emptyList());
    cluster.heartbeatAll();
    am.allocate("*", 1024, 1, Collections.emptyList());
    cluster.heartbeatAll();
    assertEquals(2, app.getLiveContainers().size(), "the last GB of the cluster");
    assertEquals(0, reportedMb(app), "the cluster is full");
    cluster.scheduler().setClosed(true);
    assertEquals(0, reportedMb(app), "it is still full after the switch");
    List<ContainerId> ended = new ArrayList<>();
    other.getLiveContainers().forEach(container -> {
      if (!container.isAMContainer()) {
        ended.add(container.getContainerId());
      }
    });
    sibling.allocate("*", 1024, 0, ended);
    cluster.rm().drainEvents();
    assertEquals(8 * 1024, reportedMb(app), "the queue's capacity less what the job has");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void maximumOfAParentBinds(boolean legacy) throws Exception {
    start(ClusterFixture.cluster().queues("root", "p,b").capacity("root.p", 50).set("root.p.maximum-capacity", "50")
        .queues("root.p", "a,c").capacity("root.p.a", 50).capacity("root.p.c", 50), legacy);
    MockAM am = cluster.startAm(cluster.submit("a", "ann", 1024), node);
    FiCaSchedulerApp app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    MockAM cousin = cluster.startAm(cluster.submit("c", "cat", 1024), node);
    FiCaSchedulerApp other = cluster.scheduler().getApplicationAttempt(cousin.getApplicationAttemptId());
    cluster.scheduler().setClosed(true);
    assertEquals(4 * 1024, reportedMb(app), "the queue's capacity less the AM");
    cousin.allocate("*", 6 * 1024, 1, Collections.emptyList());
    assertEquals(1, new Proposer(cluster).add(other, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals(2 * 1024, reportedMb(app), "10 GB of the parent less two AMs and 6 GB");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void limitsFollowTheCluster(boolean legacy) throws Exception {
    start(ClusterFixture.cluster(), legacy);
    MockAM am = cluster.startAm(cluster.submit("a", "ann", 1024), node);
    FiCaSchedulerApp app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    cluster.scheduler().setClosed(true);
    assertEquals(9 * 1024, reportedMb(app));
    cluster.node("two", 20 * 1024, 20);
    assertEquals(19 * 1024, reportedMb(app));
  }

  /** No native pass has ever looked at it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void applicationThatOnlyAnEngineHasServedHearsOfIts(boolean legacy) throws Exception {
    start(ClusterFixture.cluster(), legacy);
    cluster.scheduler().setClosed(true);
    RMApp job = cluster.submit("a", "ann", 1024);
    FiCaSchedulerApp app = cluster.attempt(job);
    assertEquals(1, new Proposer(cluster).add(app, app.getSchedulerKeys().iterator().next(), node.getNodeId()).commit()
        .count(Fate.COMMITTED));
    cluster.rm().drainEvents();
    assertEquals(9 * 1024, reportedMb(app), "the queue's capacity less the AM");
  }

  @ParameterizedTest
  @ValueSource(booleans = {true})
  void answerToAnEndedAttemptIsNotTouched(boolean legacy) throws Exception {
    start(ClusterFixture.cluster(), legacy);
    MockAM am = cluster.startAm(cluster.submit("a", "ann", 1024), node);
    FiCaSchedulerApp app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    app.stop(org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState.FAILED);
    Allocation shared = cluster.scheduler().allocate(app.getApplicationAttemptId(), Collections.emptyList(),
        Collections.emptyList(), Collections.emptyList(), null, null, new ContainerUpdates());
    Resource before = shared.getResourceLimit();
    assertNotNull(before);
    Headroom.correct(cluster.scheduler(), shared, app.getApplicationAttemptId());
    assertSame(before, shared.getResourceLimit());
  }
}

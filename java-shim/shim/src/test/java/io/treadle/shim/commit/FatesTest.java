// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.mockito.Mockito;

/** Each wrong proposal gets its own fate, and none changes anything. */
class FatesTest {
  private static final int MAP = 20;

  private ClusterFixture cluster;
  private Proposer proposer;
  private MockNM near;
  private MockNM far;
  private RMApp job;
  private MockAM am;
  private FiCaSchedulerApp app;

  @BeforeEach
  void startJob() throws Exception {
    cluster = ClusterFixture.cluster().start();
    near = cluster.node("near", 8192, 8);
    far = cluster.node("far", 8192, 8);
    job = cluster.submit("a", "ann", 1024);
    am = cluster.startAm(job, near);
    app = cluster.attempt(job);
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void ask(String host, int memoryMb, int count) throws Exception {
    am.allocate(host, memoryMb, count, Collections.emptyList());
    cluster.rm().drainEvents();
  }

  /** One container is asked for, and the next answer proposes it on the far node. */
  private void proposeOneOnFar() throws Exception {
    ask("*", 1024, 1);
    proposer.add(app, PRIORITY, far);
  }

  /** MockAM asks at priority 1. */
  private static final int PRIORITY = 1;

  private void assertRejected(Fate fate) {
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    CommitResult result = proposer.commit();
    assertEquals(fate, result.fate(result.size() - 1));
    assertNull(result.container(result.size() - 1));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  @Shows(Fate.COMMITTED)
  void committed() throws Exception {
    ask("*", 1024, 2);
    CommitResult result = proposer.add(app, PRIORITY, near).add(app, PRIORITY, far).commit();
    assertEquals(2, result.count(Fate.COMMITTED));
    assertNotNull(result.container(0));
    assertEquals(near.getNodeId(), app.getRMContainer(result.container(0)).getContainer().getNodeId());
    assertEquals(2, am.schedule().getAllocatedContainers().size());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  @Shows(Fate.UNKNOWN_APPLICATION)
  void unknownApplication() throws Exception {
    proposer.indices().of(near.getNodeId());
    proposer.add(proposer.indices().of((org.apache.hadoop.yarn.api.records.ApplicationAttemptId) null), 0, 0);
    assertRejected(Fate.UNKNOWN_APPLICATION);
  }

  @Test
  @Shows(Fate.FINISHED_ATTEMPT)
  void finishedAttempt() throws Exception {
    proposeOneOnFar();
    cluster.rm().failApplicationAttempt(app.getApplicationAttemptId());
    cluster.rm().waitForState(app.getApplicationAttemptId(), RMAppAttemptState.FAILED);
    MockRM.waitForAttemptScheduled(job, cluster.rm());
    assertRejected(Fate.FINISHED_ATTEMPT);
  }

  @Test
  @Shows(Fate.STOPPED_ATTEMPT)
  void stoppedAttempt() throws Exception {
    proposeOneOnFar();
    app.stop(RMAppAttemptState.FAILED);
    assertRejected(Fate.STOPPED_ATTEMPT);
  }

  @Test
  @Shows(Fate.NO_PENDING_ASK)
  void noPendingAsk() throws Exception {
    proposeOneOnFar();
    ask("*", 1024, 0);
    assertRejected(Fate.NO_PENDING_ASK);
  }

  @Test
  @Shows(Fate.UNKNOWN_REQUEST)
  void unknownRequest() throws Exception {
    ask("*", 1024, 1);
    proposer.add(app, PRIORITY, far).commit();
    proposer.add(0, 1, 0);
    assertRejected(Fate.UNKNOWN_REQUEST);
  }

  @Test
  @Shows(Fate.UNKNOWN_NODE)
  void unknownNode() throws Exception {
    ask("*", 1024, 1);
    proposer.add(app, Proposer.key(app, PRIORITY), NodeId.newInstance("nowhere", 1));
    assertRejected(Fate.UNKNOWN_NODE);
  }

  @Test
  @Shows(Fate.NODE_NOT_RUNNING)
  void nodeNotRunning() throws Exception {
    proposeOneOnFar();
    cluster.rm().sendNodeGracefulDecommission(far, 3600);
    cluster.rm().drainEvents();
    assertRejected(Fate.NODE_NOT_RUNNING);
  }

  @Test
  void nodeLost() throws Exception {
    proposeOneOnFar();
    cluster.rm().sendNodeEvent(far, RMNodeEventType.EXPIRE);
    cluster.rm().drainEvents();
    assertRejected(Fate.UNKNOWN_NODE);
  }

  @Test
  @Shows(Fate.NODE_STALE)
  void nodeStale() throws Exception {
    ask("*", 1024, 1);
    proposer = new Proposer(cluster, new CommitSettings(48, 2000, Time::monotonicNow));
    proposer.indices().baseLater(60_000);
    proposer.add(app, PRIORITY, far);
    assertRejected(Fate.NODE_STALE);
  }

  @Test
  void aNodeThatWasHeardAtTheFrameIsNotStaleHoweverLongTheAnswerTook() throws Exception {
    ask("*", 1024, 1);
    proposer = new Proposer(cluster,
        new CommitSettings(48, 2000, () -> Time.monotonicNow() + 60_000));
    proposer.add(app, PRIORITY, far);
    assertEquals(Fate.COMMITTED, proposer.commit().fate(0));
  }

  private void blacklist(String name) throws Exception {
    am.allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        ResourceBlacklistRequest.newInstance(Collections.singletonList(name), Collections.emptyList())));
  }

  @Test
  @Shows(Fate.BLACKLISTED)
  void blacklistedNode() throws Exception {
    proposeOneOnFar();
    blacklist("far");
    assertRejected(Fate.BLACKLISTED);
  }

  @Test
  void blacklistedRack() throws Exception {
    proposeOneOnFar();
    blacklist("/default-rack");
    assertRejected(Fate.BLACKLISTED);
  }

  @Test
  @Shows(Fate.LOCALITY)
  void relaxLocalityOffNode() throws Exception {
    askStrictly(request("near", true), request("/default-rack", false), request("*", false));
    proposer.add(app, MAP, far);
    assertRejected(Fate.LOCALITY);
    assertEquals(1, proposer.add(app, MAP, near).commit().count(Fate.COMMITTED));
  }

  @Test
  void relaxLocalityOffRack() throws Exception {
    askStrictly(request("/elsewhere", true), request("*", false));
    proposer.add(app, MAP, far);
    assertRejected(Fate.LOCALITY);
    askStrictly(request("/elsewhere", true), request("/default-rack", true), request("*", false));
    assertEquals(1, proposer.add(app, MAP, far).commit().count(Fate.COMMITTED));
  }

  private static ResourceRequest request(String name, boolean relaxLocality) {
    return ResourceRequest.newBuilder().priority(Priority.newInstance(MAP)).resourceName(name)
        .capability(org.apache.hadoop.yarn.api.records.Resource.newInstance(1024, 1)).numContainers(1)
        .relaxLocality(relaxLocality).build();
  }

  private void askStrictly(ResourceRequest... requests) throws Exception {
    am.allocate(Arrays.asList(requests), Collections.emptyList());
  }

  @Test
  @Shows(Fate.NODE_FULL)
  void nodeFull() throws Exception {
    ask("*", 8192, 1);
    proposer.add(app, PRIORITY, near);
    assertRejected(Fate.NODE_FULL);
  }

  @Test
  @Shows(Fate.DUPLICATE)
  void duplicate() throws Exception {
    ask("*", 1024, 1);
    CommitResult result = proposer.add(2, app, PRIORITY, far).commit();
    assertEquals(Fate.COMMITTED, result.fate(0));
    assertEquals(Fate.DUPLICATE, result.fate(1));
  }

  @Test
  void anotherNodeIsNoDuplicate() throws Exception {
    ask("*", 1024, 1);
    CommitResult result = proposer.add(app, PRIORITY, far).add(app, Proposer.key(app, PRIORITY), near.getNodeId())
        .commit();
    assertEquals(Fate.NO_PENDING_ASK, result.fate(1));
  }

  @Test
  @Shows(Fate.OUT_OF_RANGE)
  void outOfRange() throws Exception {
    ask("*", 1024, 1);
    proposer.add(app, PRIORITY, far).add(1, 0, 0);
    proposer.commit();
    proposer.add(0, 0, 1);
    assertRejected(Fate.OUT_OF_RANGE);
    proposer.add(Integer.MAX_VALUE, 0, 0);
    assertRejected(Fate.OUT_OF_RANGE);
  }

  @Test
  @Shows(Fate.NEGATIVE)
  void negative() throws Exception {
    ask("*", 1024, 3);
    proposer.add(app, PRIORITY, far).commit();
    for (int[] wrong : new int[][] {{-1, 0, 0}, {0, -1, 0}, {0, 0, Integer.MIN_VALUE}}) {
      proposer.add(wrong[0], wrong[1], wrong[2]);
      assertRejected(Fate.NEGATIVE);
    }
  }

  @Test
  @Shows(Fate.OVER_BATCH)
  void overBatch() throws Exception {
    ask("*", 1024, 3);
    CommitResult result = proposer.limit(2).add(3, app, PRIORITY, far).commit();
    assertEquals(2, result.count(Fate.COMMITTED));
    assertEquals(Fate.OVER_BATCH, result.fate(2));
  }

  @Test
  void whatIsLeftWhenTheTimeIsOverIsProposedAnew() throws Exception {
    ask("*", 1024, 5);
    AtomicLong nowNanos = new AtomicLong();
    proposer = new Proposer(cluster,
        new CommitSettings(2, Proposer.NODE_STALE_MS, Time::monotonicNow))
        .isOver(() -> nowNanos.get() >= 100).mayCommit(() -> nowNanos.addAndGet(60) > 0);
    CommitResult result = proposer.add(5, app, PRIORITY, far).commit();
    assertEquals(4, result.count(Fate.COMMITTED));
    assertEquals(Fate.OVER_BATCH, result.fate(4));
  }

  @Test
  void theFirstBatchIsCommittedHoweverLateItIs() throws Exception {
    ask("*", 1024, 3);
    proposer = new Proposer(cluster,
        new CommitSettings(2, Proposer.NODE_STALE_MS, Time::monotonicNow)).isOver(() -> true);
    CommitResult result = proposer.add(3, app, PRIORITY, far).commit();
    assertTrue(result.count(Fate.COMMITTED) >= 1);
    assertEquals(3, result.count(Fate.COMMITTED) + result.count(Fate.OVER_BATCH));
    assertEquals(0, proposer.add(1, app, PRIORITY, far).commit().count(Fate.LEASE_LOST));
  }

  @Test
  @Shows(Fate.LEASE_LOST)
  void leaseLost() throws Exception {
    ask("*", 1024, 5);
    AtomicInteger batches = new AtomicInteger();
    proposer = new Proposer(cluster,
        new CommitSettings(2, Proposer.NODE_STALE_MS, Time::monotonicNow))
        .mayCommit(() -> batches.getAndIncrement() == 0);
    CommitResult result = proposer.add(5, app, PRIORITY, far).commit();
    assertEquals(2, result.count(Fate.COMMITTED));
    assertEquals(3, result.count(Fate.LEASE_LOST));
    assertEquals(3, Proposer.key(app, PRIORITY) == null ? 0 : app.getOutstandingAsksCount(
        Proposer.key(app, PRIORITY)));
  }

  @Test
  @Shows(Fate.INTERNAL_ERROR)
  void internalError() throws Exception {
    ask("*", 1024, 2);
    cluster.scheduler().failCommitsWith(new IllegalStateException("injected"));
    proposer.add(app, PRIORITY, far);
    assertRejected(Fate.INTERNAL_ERROR);
    cluster.scheduler().failCommitsWith(null);
    assertEquals(1, proposer.add(app, PRIORITY, far).commit().count(Fate.COMMITTED));
  }

  @Test
  @Shows(Fate.STALE_STATE)
  void staleState() throws Exception {
    ask("*", 1024, 1);
    cluster.scheduler().rejectNextCommit();
    proposer.add(app, PRIORITY, far);
    assertRejected(Fate.STALE_STATE);
    assertEquals(1, proposer.add(app, PRIORITY, far).commit().count(Fate.COMMITTED));
  }

  @Test
  @Shows(Fate.CONTAINER_UPDATE)
  void containerUpdate() throws Exception {
    ask("*", 1024, 1);
    SchedulerRequestKey ordinary = Proposer.key(app, PRIORITY);
    SchedulerRequestKey update = SchedulerRequestKey.extractFrom(
        app.getLiveContainers().iterator().next().getContainer());
    proposer.add(app, new SchedulerRequestKey(ordinary.getPriority(), update.getAllocationRequestId(),
        app.getLiveContainers().iterator().next().getContainerId()), far.getNodeId());
    assertRejected(Fate.CONTAINER_UPDATE);
  }

  @Test
  void killedApplicationIsUnknown() throws Exception {
    proposeOneOnFar();
    cluster.rm().killApp(job.getApplicationId());
    cluster.rm().waitForState(job.getApplicationId(), RMAppState.KILLED);
    cluster.rm().waitForAppRemovedFromScheduler(job.getApplicationId());
    assertRejected(Fate.UNKNOWN_APPLICATION);
  }

  @Test
  @Shows(Fate.NOT_READY)
  void notReady() throws Exception {
    ask("*", 1024, 1);
    RMContext recovering = Mockito.spy(cluster.rm().getRMContext());
    Mockito.doReturn(true).when(recovering).isWorkPreservingRecoveryEnabled();
    Mockito.doReturn(false).when(recovering).isSchedulerReadyForAllocatingContainers();
    cluster.scheduler().pretendContext(recovering);
    proposer.add(app, PRIORITY, far);
    assertRejected(Fate.NOT_READY);
  }
}

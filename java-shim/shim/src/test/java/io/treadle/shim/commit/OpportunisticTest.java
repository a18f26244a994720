// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.OpportunisticNodes;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Opportunistic containers come and go beside us while the gate is closed; their promotion is ours. */
class OpportunisticTest {
  private ClusterFixture cluster;
  private ContainerUpdates updates;
  private MockNM node;
  private MockAM am;
  private FiCaSchedulerApp app;

  @BeforeEach
  void startJob() throws Exception {
    cluster = ClusterFixture.cluster()
        .site(YarnConfiguration.OPPORTUNISTIC_CONTAINER_ALLOCATION_ENABLED, "true")
        .site(YarnConfiguration.NM_CONTAINER_QUEUING_SORTING_NODES_INTERVAL_MS, "10").start();
    node = cluster.rm().registerNode("one:1234", 8192, 8);
    // the first heartbeat says, once and for all, how many containers the node lets wait; the allocator has a
    // dispatcher of its own, for which drainEvents() does not wait, and would read the next heartbeat, which says none
    OpportunisticNodes.beat(cluster.rm(), node);
    Await.until("the allocator knows the node", () -> OpportunisticNodes.usable(cluster.rm().getRMContext()) == 1);
    RMApp job = cluster.submit("a", "ann", 1024);
    am = cluster.startAm(job, node);
    app = cluster.attempt(job);
    cluster.scheduler().setClosed(true);
    updates = new ContainerUpdates(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, Time::monotonicNow),
        new HashMap<>(), any -> { });
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  /** A thread of the allocator's own looks for nodes from time to time; an ask waits until it has found ours. */
  private Container allocateOpportunistic() throws Exception {
    List<Container> given = new ArrayList<>(am.allocate(
        Collections.singletonList(am.createResourceReq("*", 1024, 1, 1, null,
            ExecutionTypeRequest.newInstance(ExecutionType.OPPORTUNISTIC, true))),
        Collections.emptyList()).getAllocatedContainers());
    Await.until("the allocator has placed it", () -> {
      OpportunisticNodes.beat(cluster.rm(), node);
      given.addAll(am.schedule().getAllocatedContainers());
      return !given.isEmpty();
    });
    assertEquals(1, given.size());
    return given.get(0);
  }

  private void report(ContainerId id, ExecutionType type, ContainerState state) throws Exception {
    node.nodeHeartbeat(Collections.singletonList(ContainerStatus.newInstance(id, type, state, "", 0)), true);
    cluster.rm().drainEvents();
  }

  private AllocateResponse update(Container container, ContainerUpdateType type, ExecutionType target)
      throws Exception {
    return am.sendContainerUpdateRequest(Collections.singletonList(
        UpdateContainerRequest.newInstance(container.getVersion(), container.getId(), type, null, target)));
  }

  @Test
  void theyComeAndGoBesideUs() throws Exception {
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    int commits = cluster.scheduler().commits();
    Container container = allocateOpportunistic();
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.RUNNING);
    assertEquals(2, app.getLiveContainers().size());
    assertEquals(1024, cluster.schedulerNode(node).getAllocatedResource().getMemorySize(), "the AM alone is counted");
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.COMPLETE);
    assertNull(app.getRMContainer(container.getId()));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
    assertEquals(commits, cluster.scheduler().commits());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void promotionIsPlacedOnItsOwnNodeWithoutAnEngine() throws Exception {
    Container container = allocateOpportunistic();
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.RUNNING);
    update(container, ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ExecutionType.GUARANTEED);
    OpportunisticNodes.beat(cluster.rm(), node);
    assertTrue(am.schedule().getUpdatedContainers().isEmpty(), "the stock scheduler places nothing");
    updates.mark(app.getApplicationAttemptId());
    assertEquals(1, updates.place(() -> true));
    AllocateResponse response = am.schedule();
    assertEquals(1, response.getUpdatedContainers().size());
    Container promoted = response.getUpdatedContainers().get(0).getContainer();
    assertEquals(container.getId(), promoted.getId());
    assertEquals(ExecutionType.GUARANTEED, promoted.getExecutionType());
    // the container that stood in for the promotion is released by an event
    cluster.rm().drainEvents();
    assertEquals(2048, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.COMPLETE);
    assertEquals(1024, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void demotionNeedsNoCommit() throws Exception {
    Container container = allocateOpportunistic();
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.RUNNING);
    update(container, ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ExecutionType.GUARANTEED);
    updates.markAll();
    assertEquals(1, updates.place(() -> true));
    Container promoted = am.schedule().getUpdatedContainers().get(0).getContainer();
    int commits = cluster.scheduler().commits();
    AllocateResponse response =
        update(promoted, ContainerUpdateType.DEMOTE_EXECUTION_TYPE, ExecutionType.OPPORTUNISTIC);
    assertEquals(ExecutionType.OPPORTUNISTIC,
        response.getUpdatedContainers().get(0).getContainer().getExecutionType());
    assertEquals(commits, cluster.scheduler().commits());
    cluster.rm().drainEvents();
    assertEquals(1024, cluster.schedulerNode(node).getAllocatedResource().getMemorySize());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
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
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.OpportunisticNodes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The engine hears of guaranteed containers, each of which ends for it, whatever happens to it. */
@Timeout(300)
class ExecutionTypesTest {
  /** Three times as long as it takes until a container that has ended unseen is noticed. */
  private static final int TICKS = 60;

  private Cluster cluster;
  private MockNM node;
  private MockAM am;

  @BeforeEach
  void startJob() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.setBoolean(YarnConfiguration.OPPORTUNISTIC_CONTAINER_ALLOCATION_ENABLED, true);
    conf.setLong(YarnConfiguration.NM_CONTAINER_QUEUING_SORTING_NODES_INTERVAL_MS, 10);
    cluster = new Cluster(conf, new MirrorSettings(1 << 20, Cluster.NEVER_MS, Cluster.NEVER_MS, 100));
    node = cluster.rm.registerNode("n1:1234", 8192, 8);
    OpportunisticNodes.beat(cluster.rm, node);
    Await.until("the allocator knows the node", () -> OpportunisticNodes.usable(cluster.rm.getRMContext()) == 1);
    am = MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, cluster.rm).withQueue("a").withUser("ann").withUnmanagedAM(false).build()),
        cluster.rm, node);
    cluster.tick();
    assertEquals(1, alive(), "the AM");
  }

  @AfterEach
  void stop() {
    assertEquals("[]", cluster.scheduler.failures.toString());
    cluster.close();
  }

  private int alive() {
    return cluster.model.applications.get(0L).containers.size();
  }

  private void endsOnce(ContainerId container, String how) {
    List<String> ends = cluster.model.containers.stream()
        .filter(row -> row.startsWith(container.getContainerId() + " event=3 ")).collect(Collectors.toList());
    assertEquals(1, ends.size(), cluster.model.containers.toString());
    assertTrue(ends.get(0).contains(how), ends.get(0));
  }

  private void ticks() {
    for (int i = 0; i < TICKS; i++) {
      cluster.tick();
    }
  }

  private Container allocate(ExecutionType type) throws Exception {
    List<Container> given = new ArrayList<>(am.allocate(Collections.singletonList(am.createResourceReq("*", 1024, 1, 1,
        null, ExecutionTypeRequest.newInstance(type, true))), Collections.emptyList()).getAllocatedContainers());
    Await.until("it is placed", () -> {
      OpportunisticNodes.beat(cluster.rm, node);
      given.addAll(am.schedule().getAllocatedContainers());
      return !given.isEmpty();
    });
    return given.get(0);
  }

  private void report(ContainerId id, ExecutionType type, ContainerState state) throws Exception {
    node.nodeHeartbeat(Collections.singletonList(ContainerStatus.newInstance(id, type, state, "", 0)), true);
    cluster.rm.drainEvents();
  }

  private Container update(Container container, ContainerUpdateType type, ExecutionType target) throws Exception {
    AllocateResponse[] last = {am.sendContainerUpdateRequest(Collections.singletonList(UpdateContainerRequest
        .newInstance(container.getVersion(), container.getId(), type, null, target)))};
    Await.until("it is updated", () -> {
      OpportunisticNodes.beat(cluster.rm, node);
      last[0] = last[0].getUpdatedContainers().isEmpty() ? am.schedule() : last[0];
      return !last[0].getUpdatedContainers().isEmpty();
    });
    return last[0].getUpdatedContainers().get(0).getContainer();
  }

  private void tickAndSnapshot(int expected) {
    cluster.tick();
    assertEquals(expected, alive());
    cluster.mirror.snapshotNeeded();
    cluster.tick();
    assertEquals(expected, alive(), "after a snapshot");
  }

  @Test
  void opportunisticOnesAreNotSent() throws Exception {
    Container container = allocate(ExecutionType.OPPORTUNISTIC);
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.RUNNING);
    tickAndSnapshot(1);
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.COMPLETE);
    tickAndSnapshot(1);
  }

  @Test
  void onesThatArePromotedBeginAndOnesThatAreDemotedEnd() throws Exception {
    Container container = allocate(ExecutionType.OPPORTUNISTIC);
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.RUNNING);
    Container promoted = update(container, ContainerUpdateType.PROMOTE_EXECUTION_TYPE, ExecutionType.GUARANTEED);
    tickAndSnapshot(2);
    update(promoted, ContainerUpdateType.DEMOTE_EXECUTION_TYPE, ExecutionType.OPPORTUNISTIC);
    cluster.tick();
    endsOnce(container.getId(), "exit=-1000");
    tickAndSnapshot(1);
    report(container.getId(), ExecutionType.OPPORTUNISTIC, ContainerState.COMPLETE);
    tickAndSnapshot(1);
  }

  @Test
  void oneWhoseEndPassedUnheardEnds() throws Exception {
    Container container = allocate(ExecutionType.GUARANTEED);
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.RUNNING);
    cluster.tick();
    assertEquals(2, alive());
    cluster.scheduler.deafToEnds = true;
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.COMPLETE);
    ticks();
    assertEquals(1, alive());
    endsOnce(container.getId(), "exit=-1000");
  }

  @Test
  void oneWhoseBeginPassedUnheardBegins() throws Exception {
    cluster.scheduler.deafToBegins = true;
    Container container = allocate(ExecutionType.GUARANTEED);
    cluster.tick();
    assertEquals(1, alive());
    ticks();
    assertEquals(2, alive());
    cluster.scheduler.deafToBegins = false;
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.COMPLETE);
    ticks();
    assertEquals(1, alive());
    endsOnce(container.getId(), "exit=0");
  }

  @Test
  void oneWhoseEndWasHeardEndsOnce() throws Exception {
    Container container = allocate(ExecutionType.GUARANTEED);
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.RUNNING);
    cluster.tick();
    report(container.getId(), ExecutionType.GUARANTEED, ContainerState.COMPLETE);
    ticks();
    endsOnce(container.getId(), "exit=0");
  }
}

// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.Collections;
import java.util.Map;
import org.apache.commons.lang3.reflect.FieldUtils;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The scheduler calls the parts that keep features alive: an engine that proposes nothing does not stop them. */
@Timeout(300)
class FeaturesInRmTest {
  private final YarnConfiguration conf = TestRms.withEngine("off");
  private MockRM rm;
  private MockNM node;
  private MockAM am;

  @BeforeEach
  void startJobUnderTheStockScheduler() throws Exception {
    rm = TestRms.start(conf, Frame::answer);
    node = rm.registerNode("h1:1234", 8 * 1024);
    RMApp job = TestRms.submit(rm, 1024);
    am = TestRms.launch(rm, job, node);
  }

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private TreadleScheduler scheduler() {
    return TestRms.scheduler(rm);
  }

  private void turnTo(String mode) throws Exception {
    conf.set(ShimConfig.MODE, mode);
    TestRms.refresh(rm, conf);
    TestRms.await(rm, "LeaseHeld", 1);
  }

  private Container runContainer(MockAM owner, int memoryMb) throws Exception {
    owner.allocate("*", memoryMb, 1, Collections.emptyList());
    node.nodeHeartbeat(true);
    rm.drainEvents();
    Container container = owner.schedule().getAllocatedContainers().get(0);
    node.nodeHeartbeat(owner.getApplicationAttemptId(), container.getId().getContainerId(), ContainerState.RUNNING);
    rm.waitForState(node, container.getId(), RMContainerState.RUNNING);
    return container;
  }

  @Test
  void anIncreaseIsPlacedWhileTheEngineProposesNothing() throws Exception {
    Container container = runContainer(am, 1024);
    turnTo("enforce");
    AllocateResponse[] last = {am.sendContainerResizingRequest(Collections.singletonList(
        UpdateContainerRequest.newInstance(container.getVersion(), container.getId(),
            ContainerUpdateType.INCREASE_RESOURCE, Resource.newInstance(3072, 1), null)))};
    Await.until("the container has grown", () -> {
      last[0] = last[0].getUpdatedContainers().isEmpty() ? am.schedule() : last[0];
      return !last[0].getUpdatedContainers().isEmpty();
    });
    Container grown = last[0].getUpdatedContainers().get(0).getContainer();
    assertEquals(3072, grown.getResource().getMemorySize());
    Await.until("the node has it too",
        () -> scheduler().getNode(node.getNodeId()).getAllocatedResource().getMemorySize() == 4096);
  }

  /** What is held refers to applications, which may end long before the next engine comes. */
  @Test
  void nothingIsHeldForAnIncreaseWithoutAnEngine() throws Exception {
    Container container = runContainer(am, 1024);
    turnTo("enforce");
    am.sendContainerResizingRequest(Collections.singletonList(UpdateContainerRequest.newInstance(
        container.getVersion(), container.getId(), ContainerUpdateType.INCREASE_RESOURCE,
        Resource.newInstance(8192, 1), null)));
    Object pipeline = FieldUtils.readField(scheduler().shim(), "pipeline", true);
    Map<?, ?> holds = (Map<?, ?>) FieldUtils.readField(FieldUtils.readField(pipeline, "updates", true), "holds", true);
    Await.until("the node is held", () -> !holds.isEmpty());
    conf.set(ShimConfig.MODE, "off");
    TestRms.refresh(rm, conf);
    Await.until("it is not any more", holds::isEmpty);
  }

  @Test
  void nativeReservationsAreReleasedWhenAnEngineTakesOver() throws Exception {
    runContainer(am, 4096);
    // within the queue's limit, but on no node
    rm.registerNode("h2:1234", 3 * 1024);
    am.allocate("*", 4096, 1, Collections.emptyList());
    TestRms.heartbeatUntil(node, "the stock scheduler has made a reservation",
        () -> scheduler().getNode(node.getNodeId()).getReservedContainer() != null);
    turnTo("enforce");
    Await.until("the reservation is gone",
        () -> scheduler().getNode(node.getNodeId()).getReservedContainer() == null);
    Await.until("nothing is reserved in the accounting",
        () -> scheduler().getRootQueue().getQueueResourceUsage().getReserved().getMemorySize() == 0);
  }

  /** The leaf's limit dates from the last native placement, when the sibling queue had filled the cluster. */
  @Test
  void headroomIsComputedAfreshWhenAnEngineTakesOver() throws Exception {
    conf.set("yarn.scheduler.capacity.root.queues", "default,other");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "50");
    conf.set("yarn.scheduler.capacity.root.other.capacity", "50");
    conf.set("yarn.scheduler.capacity.root.other.user-limit-factor", "2");
    conf.set("yarn.scheduler.capacity.root.other.maximum-am-resource-percent", "1");
    TestRms.refresh(rm, conf);
    MockAM sibling = TestRms.launch(rm, MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, rm).withQueue("other").withUnmanagedAM(false).build()), node);
    Container large = runContainer(sibling, 5 * 1024);
    runContainer(am, 1024);
    assertEquals(0, am.schedule().getAvailableResources().getMemorySize());
    turnTo("enforce");
    sibling.allocate("*", 1024, 0, Collections.singletonList(large.getId()));
    rm.drainEvents();
    Await.until("what has ended is free for the AM",
        () -> am.schedule().getAvailableResources().getMemorySize() == 2 * 1024);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.SchedulerPort;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;
import org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator;
import org.apache.hadoop.yarn.util.resource.DominantResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.junit.jupiter.api.Test;

/** Features of the CapacityScheduler that need a rule on the wire. */
class FeaturesTest {
  private static RMApp submit(Cluster cluster, String queue, int memory) throws Exception {
    return MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(memory, cluster.rm)
        .withQueue(queue).withUser("carol").withUnmanagedAM(false).build());
  }

  @Test
  void anApplicationBeyondTheAmLimitWaitsUntilThereIsRoom() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.1");
    try (Cluster cluster = new Cluster(conf, Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockRM.launchAndRegisterAM(submit(cluster, "a", 1024), cluster.rm, node);
      RMApp waiting = submit(cluster, "a", 1024);
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.get(1L).row.endsWith("state=2 awaiting_am=1"),
          cluster.model.applications.get(1L).row);
      cluster.rm.registerNode("n2:1234", 64 * 1024, 64);
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.get(1L).row.endsWith("state=1 awaiting_am=1"),
          cluster.model.applications.get(1L).row);
      assertEquals(waiting.getApplicationId(), cluster.directory().application(1).getApplicationId());
    }
  }

  @Test
  void aReservedNodeIsNotUsable() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 8 * 1024, 16);
      cluster.rm.registerNode("n2:1234", 8 * 1024, 16);
      MockAM am = MockRM.launchAndRegisterAM(submit(cluster, "a", 1024), cluster.rm, node);
      am.allocate(am.createReq(new String[0], 4096, 1, 2, -1), new ArrayList<ContainerId>());
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertTrue(cluster.model.nodes.get(0L).contains("state=1"), cluster.model.nodes.toString());
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertTrue(cluster.model.nodes.get(0L).contains("state=2"), cluster.model.nodes.toString());
      am.allocate(am.createReq(new String[0], 4096, 1, 0, -1), new ArrayList<ContainerId>());
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertTrue(cluster.model.nodes.get(0L).contains("state=1"), cluster.model.nodes.toString());
    }
  }

  @Test
  void aSchedulingRequestIsAConstrainedAskAtAny() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.set(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER,
        YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    try (Cluster cluster = new Cluster(conf, Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = MockRM.launchAndRegisterAM(submit(cluster, "a", 1024), cluster.rm, node);
      SchedulingRequest request = SchedulingRequest.newInstance(9, Priority.newInstance(4),
          ExecutionTypeRequest.newInstance(), Collections.singleton("zk"),
          ResourceSizing.newInstance(3, Resources.createResource(2048, 1)),
          PlacementConstraints.targetNotIn("node", PlacementConstraints.PlacementTargets.allocationTag("zk")).build());
      am.allocate(new ArrayList<>(), Collections.singletonList(request), new ArrayList<>());
      cluster.tickAndCheck();
      assertEquals("priority=4 id=9 count=3 relax=1 constrained=1 partition= [2048, 1]",
          cluster.model.applications.get(0L).requests.values().iterator().next());
      assertTrue(cluster.model.applications.get(0L).localities.isEmpty());
      node.nodeHeartbeat(true);
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.get(0L).requests.toString().contains("count=2"),
          cluster.model.applications.get(0L).requests.toString());
    }
  }

  /** Runs a container of 1024 MB; an AM must ask for it by its number. */
  private static ContainerId run(Cluster cluster, MockAM am, MockNM node) throws Exception {
    am.allocate("*", 1024, 1, Collections.emptyList());
    node.nodeHeartbeat(true);
    cluster.rm.drainEvents();
    ContainerId id = am.schedule().getAllocatedContainers().get(0).getId();
    node.nodeHeartbeat(am.getApplicationAttemptId(), id.getContainerId(), ContainerState.RUNNING);
    cluster.rm.waitForState(node, id, RMContainerState.RUNNING);
    return id;
  }

  private static void resize(Cluster cluster, MockAM am, MockNM node, UpdateContainerRequest request) throws Exception {
    am.sendContainerResizingRequest(Collections.singletonList(request));
    node.nodeHeartbeat(true);
    cluster.rm.drainEvents();
    am.schedule();
    cluster.rm.drainEvents();
  }

  @Test
  void aResizedContainerIsSentWithWhatItHasNow() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = MockRM.launchAndRegisterAM(submit(cluster, "a", 1024), cluster.rm, node);
      ContainerId id = run(cluster, am, node);
      cluster.tickAndCheck();
      resize(cluster, am, node, UpdateContainerRequest.newInstance(0, id, ContainerUpdateType.INCREASE_RESOURCE,
          Resources.createResource(3072, 1), null));
      cluster.tickAndCheck();
      Map<Long, String> containers = cluster.model.applications.get(0L).containers;
      assertTrue(containers.get(id.getContainerId()).endsWith("[3072, 1]"), containers.toString());
      resize(cluster, am, node, UpdateContainerRequest.newInstance(1, id, ContainerUpdateType.DECREASE_RESOURCE,
          Resources.createResource(2048, 1), null));
      cluster.tickAndCheck();
      assertTrue(containers.get(id.getContainerId()).endsWith("[2048, 1]"), containers.toString());
      assertEquals(1, cluster.mirror.snapshots());
    }
  }

  @Test
  void anotherCalculatorIsSentByASnapshot() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      assertEquals(Arrays.asList("memory-mb 1", "vcores 0"), cluster.model.resourceTypes);
      cluster.scheduler.setResourceCalculator(new DominantResourceCalculator());
      cluster.tickAndCheck();
      assertEquals(Arrays.asList("memory-mb 1", "vcores 1"), cluster.model.resourceTypes);
      assertEquals(2, cluster.mirror.snapshots());
    }
  }

  @Test
  void aRefreshChangesTheTree() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      CapacitySchedulerConfiguration changed = new CapacitySchedulerConfiguration(Cluster.conf(), false);
      changed.set("yarn.scheduler.capacity.root.queues", "a,b,c");
      changed.set("yarn.scheduler.capacity.root.b.capacity", "30");
      changed.set("yarn.scheduler.capacity.root.c.capacity", "10");
      changed.set("yarn.scheduler.capacity.root.b.state", "STOPPED");
      cluster.scheduler.reinitialize(changed, cluster.rm.getRMContext());
      cluster.scheduler.journal.queuesChanged();
      cluster.tickAndCheck();
      assertEquals(4, cluster.model.queues.size());
      assertTrue(cluster.model.queues.containsValue("root.b state=0 leaf=1 policy=fair weight=1 priority=3"),
          cluster.model.queues.toString());
    }
  }

  @Test
  void theCalculatorIsAskedWhichTypesItCounts() {
    assertTrue(SchedulerPort.isCounted(new DefaultResourceCalculator(), 0));
    assertTrue(!SchedulerPort.isCounted(new DefaultResourceCalculator(), 1));
    assertTrue(SchedulerPort.isCounted(new DominantResourceCalculator(), 1));
  }
}

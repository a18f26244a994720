// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeOpCode;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints.PlacementTargets;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What the RM knows of nodes beside their resources, while the gate is closed: attributes, and its own blacklist. */
class NodeFeaturesTest {
  private static final int PRIORITY = 4;
  private static final int AM_PRIORITY = 0;
  /** Of a program that failed. */
  private static final int EXIT_STATUS = 1;

  private ClusterFixture cluster;
  private MockNM one;
  private MockNM two;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private RMApp start(ClusterFixture.Builder description) throws Exception {
    cluster = description.start();
    one = cluster.node("one", 8192, 8);
    two = cluster.node("two", 8192, 8);
    return cluster.submit("a", "ann", 1024);
  }

  @Test
  @Shows(Fate.CONSTRAINT)
  void aNodeWithoutTheAttributeIsTurnedDown() throws Exception {
    RMApp job = start(ClusterFixture.cluster().site(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER,
        YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER));
    NodeAttribute java = NodeAttribute.newInstance("java", NodeAttributeType.STRING, "17");
    cluster.rm().getRMContext().getNodeAttributesManager()
        .addNodeAttributes(Collections.singletonMap("two", Collections.singleton(java)));
    cluster.rm().drainEvents();
    MockAM am = cluster.startAm(job, one);
    cluster.scheduler().setClosed(true);
    SchedulingRequest request = SchedulingRequest.newInstance(9, Priority.newInstance(PRIORITY),
        ExecutionTypeRequest.newInstance(), Collections.emptySet(),
        ResourceSizing.newInstance(1, Resource.newInstance(1024, 1)),
        PlacementConstraints.targetNodeAttribute(PlacementConstraints.NODE, NodeAttributeOpCode.EQ,
            PlacementTargets.nodeAttribute("java", "17")).build());
    am.allocate(new ArrayList<>(), Collections.singletonList(request), new ArrayList<>());
    FiCaSchedulerApp app = cluster.attempt(job);
    Proposer proposer = new Proposer(cluster);
    assertEquals(Fate.CONSTRAINT, proposer.add(app, PRIORITY, one).commit().fate(0));
    assertEquals(Fate.COMMITTED, proposer.add(app, PRIORITY, two).commit().fate(0));
    assertEquals(two.getNodeId(), am.schedule().getAllocatedContainers().get(0).getNodeId());
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  /** The RM keeps the masters of an application off nodes on which one has failed. */
  @Test
  @Shows(Fate.BLACKLISTED)
  void aMasterIsNotPlacedWhereTheOneBeforeItFailed() throws Exception {
    RMApp job = start(ClusterFixture.cluster()
        .site(YarnConfiguration.AM_SCHEDULING_NODE_BLACKLISTING_ENABLED, "true")
        .site(YarnConfiguration.AM_SCHEDULING_NODE_BLACKLISTING_DISABLE_THRESHOLD, "0.6"));
    cluster.startAm(job, one);
    cluster.scheduler().setClosed(true);
    ContainerId failed = job.getCurrentAppAttempt().getMasterContainer().getId();
    one.nodeHeartbeat(Collections.singletonMap(job.getApplicationId(), Collections.singletonList(
        ContainerStatus.newInstance(failed, ContainerState.COMPLETE, "", EXIT_STATUS))), true);
    cluster.rm().waitForState(failed.getApplicationAttemptId(), RMAppAttemptState.FAILED);
    cluster.rm().drainEvents();
    cluster.rm().waitForState(job.getCurrentAppAttempt().getAppAttemptId(), RMAppAttemptState.SCHEDULED);
    FiCaSchedulerApp next = cluster.attempt(job);
    assertTrue(next.isWaitingForAMContainer());
    Proposer proposer = new Proposer(cluster);
    assertEquals(Fate.BLACKLISTED, proposer.add(next, AM_PRIORITY, one).commit().fate(0));
    assertEquals(Fate.COMMITTED, proposer.add(next, AM_PRIORITY, two).commit().fate(0));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }
}

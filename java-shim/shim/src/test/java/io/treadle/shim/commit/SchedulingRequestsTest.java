// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NodeAttributeOpCode;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints.PlacementTargets;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Asks with placement constraints, under each of YARN's handlers for them, while the gate is closed. */
class SchedulingRequestsTest {
  private static final int PRIORITY = 4;
  private static final String TAG = "zookeeper";

  private ClusterFixture cluster;
  private MockNM one;
  private MockNM two;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private RMApp start(String handler) throws Exception {
    cluster = ClusterFixture.cluster().site(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER, handler).start();
    one = cluster.node("one", 8192, 8);
    two = cluster.node("two", 8192, 8);
    return cluster.submit("a", "ann", 1024);
  }

  private MockAM launch(RMApp job) throws Exception {
    MockAM am = cluster.startAm(job, one);
    cluster.scheduler().setClosed(true);
    return am;
  }

  private static PlacementConstraint antiAffinity() {
    return PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag(TAG)).build();
  }

  private static SchedulingRequest request(long id, int count, PlacementConstraint constraint) {
    return SchedulingRequest.newInstance(id, Priority.newInstance(PRIORITY), ExecutionTypeRequest.newInstance(),
        Collections.singleton(TAG), ResourceSizing.newInstance(count, Resource.newInstance(1024, 1)), constraint);
  }

  private static AllocateResponse ask(MockAM am, SchedulingRequest request) throws Exception {
    return am.allocate(new ArrayList<>(), Collections.singletonList(request), new ArrayList<>());
  }

  @Test
  @Shows(Fate.CONSTRAINT)
  void handlerSchedulerIsServedNodeByNode() throws Exception {
    RMApp job = start(YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    MockAM am = launch(job);
    FiCaSchedulerApp app = cluster.attempt(job);
    Proposer proposer = new Proposer(cluster);
    ask(am, request(9, 2, antiAffinity()));
    assertEquals(Fate.COMMITTED, proposer.add(app, PRIORITY, one).commit().fate(0));
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    assertEquals(Fate.CONSTRAINT, proposer.add(app, PRIORITY, one).commit().fate(0), "one of them is there");
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
    assertEquals(Fate.COMMITTED, proposer.add(app, PRIORITY, two).commit().fate(0));
    List<Container> given = am.schedule().getAllocatedContainers();
    assertEquals(2, given.stream().map(Container::getNodeId).distinct().count());
    assertTrue(given.stream().allMatch(container -> container.getAllocationTags().contains(TAG)));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  /** Stock code throws where an attribute is compared with nothing: that is no failure of the engine's. */
  @Test
  void anAttributeComparedWithNothingIsMetByNoNode() throws Exception {
    RMApp job = start(YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    MockAM am = launch(job);
    Proposer proposer = new Proposer(cluster);
    ask(am, request(9, 1, PlacementConstraints.targetNodeAttribute(PlacementConstraints.NODE, NodeAttributeOpCode.EQ,
        PlacementTargets.nodeAttribute("gpu")).build()));
    assertEquals(Fate.CONSTRAINT, proposer.add(cluster.attempt(job), PRIORITY, one).commit().fate(0));
    assertEquals(Fate.CONSTRAINT, proposer.add(cluster.attempt(job), PRIORITY, one).judge().fate(0));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void judgedInTheSameWay() throws Exception {
    RMApp job = start(YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    MockAM am = launch(job);
    Proposer proposer = new Proposer(cluster);
    ask(am, request(9, 2, antiAffinity()));
    FiCaSchedulerApp app = cluster.attempt(job);
    proposer.add(app, PRIORITY, one).commit();
    CommitResult result = proposer.add(app, PRIORITY, one).add(app, PRIORITY, two).judge();
    assertEquals(Fate.CONSTRAINT, result.fate(0));
    assertEquals(Fate.OBSERVED, result.fate(1));
  }

  /** The processor's threads commit without passing the gate. */
  @Test
  void handlerPlacementProcessorWorksBesideUs() throws Exception {
    RMApp job = start(YarnConfiguration.PROCESSOR_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    cluster.scheduler().setClosed(false);
    MockAM am = MockRM.launchAndRegisterAM(job, cluster.rm(), one,
        Collections.singletonMap(Collections.singleton(TAG), antiAffinity()));
    cluster.scheduler().setClosed(true);
    FiCaSchedulerApp app = cluster.attempt(job);
    List<Container> given = new ArrayList<>(ask(am, request(1, 1, null)).getAllocatedContainers());
    given.addAll(ask(am, request(2, 1, null)).getAllocatedContainers());
    Await.until("both containers are placed", () -> {
      cluster.heartbeatAll();
      given.addAll(am.schedule().getAllocatedContainers());
      return given.size() == 2;
    });
    assertEquals(2, given.stream().map(Container::getNodeId).collect(Collectors.toSet()).size());
    assertEquals(3, app.getLiveContainers().size());
    assertTrue(app.getSchedulerKeys().isEmpty(), "nothing that an engine would be asked for");
    // stock's own habit: these commits take off unconfirmed resources that the processor has never added
    assertEquals("attempt " + app.getApplicationAttemptId() + " has unconfirmed resources\n",
        new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void handlerDisabledRejectsThem() throws Exception {
    MockAM am = launch(start(YarnConfiguration.DISABLED_RM_PLACEMENT_CONSTRAINTS_HANDLER));
    YarnException refused = assertThrows(YarnException.class, () -> ask(am, request(9, 1, antiAffinity())));
    assertTrue(refused.getMessage().contains(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER),
        refused.getMessage());
  }
}

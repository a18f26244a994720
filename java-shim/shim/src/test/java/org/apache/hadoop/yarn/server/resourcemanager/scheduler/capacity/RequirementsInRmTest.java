// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Submitter;
import io.treadle.shim.constraints.TreadlePlacementAllocator;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.ArrayList;
import java.util.Collections;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NodeAttributeOpCode;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints.PlacementTargets;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Requirements in a real ResourceManager, and what applications are shown of theirs. */
@Timeout(300)
class RequirementsInRmTest {
  private static long requests;

  private MockRM rm;
  private MockNM node;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private void start(YarnConfiguration conf) throws Exception {
    rm = TestRms.start(conf, Frame::answer);
    node = rm.registerNode("h1:1234", 16_384);
  }

  private MockAM launch(String requirement) throws Exception {
    RMApp app = Submitter.submit(rm, "default", 1024, Collections.singleton("treadle:require=" + requirement));
    return TestRms.launch(rm, app, node);
  }

  private static void ask(MockAM am, int count) throws Exception {
    am.allocate(am.createReq(new String[] {"*"}, 1024, 5, count, -1), new ArrayList<>());
  }

  private static YarnConfiguration installed() {
    YarnConfiguration conf = TestRms.configuration("off");
    conf.set("yarn.scheduler.app-placement-allocator.class", TreadlePlacementAllocator.class.getName());
    return conf;
  }

  @Test
  void theStockSchedulerKeepsToThemWhereTheAllocatorIsInstalled() throws Exception {
    start(installed());
    MockAM am = launch("zone=a");
    ask(am, 3);
    MockAM other = launch("zone!=a");
    ask(other, 2);
    TestRms.heartbeatUntil(node, "the other's are placed", () -> TestRms.containers(rm, node) == 4);
    assertEquals(1,
        TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size());
  }

  @Test
  void withoutTheAllocatorTheStockSchedulerDoesNotLookAtThem() throws Exception {
    start(TestRms.configuration("off"));
    MockAM am = launch("zone=a");
    ask(am, 3);
    TestRms.heartbeatUntil(node, "all are placed", () -> TestRms.containers(rm, node) == 4);
  }

  /** A user chooses these texts, none of which can be read. */
  @ParameterizedTest
  @ValueSource(strings = {"zone", "zone==\n2026-11-24 07:30:00 FATAL shutting down \u001b[2J"})
  void oneThatCannotBeReadIsReportedToTheApplicationInOneLine(String required) throws Exception {
    start(installed());
    RMApp app = Submitter.submit(rm, "default", 1024, Collections.emptySet(), "TREADLE_REQUIRE", required);
    MockAM am = TestRms.launch(rm, app, node);
    ask(am, 1);
    TestRms.heartbeatUntil(node, "it is reported", () -> app.getDiagnostics().toString()
        .contains(required.replaceAll("[^ -~]", " ") + "', which is not name op value"));
    String shown = app.getDiagnostics().toString();
    assertFalse(shown.contains("\n") || shown.contains("\u001b"), shown);
  }

  /** What an engine says of an application is its diagnostics until the engine takes it back. */
  @Test
  void whatAnEngineSaysIsSaidToTheApplication() throws Exception {
    rm = TestRms.start(TestRms.withEngine("enforce"), ScriptedEngine::proposeTheFirst);
    node = rm.registerNode("h1:1234", 16_384);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    RMApp app = rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId());
    say("[[0, \"no node has zone=a\\n\\u001b[2J\"], [7, \"nobody\"]]");
    Await.until("it is said", () -> app.getDiagnostics().toString()
        .equals("Treadle's scheduling engine: no node has zone=a  [2J"));
    say("[]");
    Await.until("it is taken back", () -> app.getDiagnostics().length() == 0);
  }

  private static void say(String diagnostics) {
    ScriptedEngine.script(frame -> ScriptedEngine.answer(
        frame.epoch(), frame.sequence(), 0, "{\"policy\": \"p\", \"diagnostics\": " + diagnostics + "}"));
  }

  /** Stock code throws on its own thread where an attribute is compared with nothing, with no engine about. */
  @Test
  void aConstraintThatComparesWithNothingIsKeptFromTheSchedulerAndRejected() throws Exception {
    YarnConfiguration conf = TestRms.configuration("off");
    conf.set(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER,
        YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    start(conf);
    MockAM am = launch("zone!=a");
    RMApp app = rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId());
    AllocateResponse answer = ask(am, PlacementConstraints.and(
        PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag("x")),
        PlacementConstraints.targetNodeAttribute(PlacementConstraints.NODE, NodeAttributeOpCode.EQ,
            PlacementTargets.nodeAttribute("gpu"))));
    assertEquals(1, answer.getRejectedSchedulingRequests().size());
    assertEquals(requests, answer.getRejectedSchedulingRequests().get(0).getRequest().getAllocationRequestId());
    String said = app.getDiagnostics().toString();
    assertTrue(said.contains("compares a node attribute with nothing"), said);
    assertTrue(TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId()).getSchedulerKeys().isEmpty());
    node.nodeHeartbeat(true);
    rm.drainEvents();
    ask(am, PlacementConstraints.delayedOr(PlacementConstraints.timedClockConstraint(
        PlacementConstraints.targetIn(PlacementConstraints.NODE, PlacementTargets.allocationTag("x")), 10,
        TimeUnit.SECONDS)));
    assertTrue(app.getDiagnostics().toString().contains("delayed-or"), app.getDiagnostics().toString());
    answer = ask(am, PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag("x")));
    assertTrue(answer.getRejectedSchedulingRequests().isEmpty());
    TestRms.heartbeatUntil(node, "what can be judged is placed", () -> TestRms.containers(rm, node) == 2);
  }

  private static AllocateResponse ask(MockAM am, PlacementConstraint.AbstractConstraint constraint) throws Exception {
    return am.allocate(new ArrayList<>(), Collections.singletonList(SchedulingRequest.newInstance(++requests,
        Priority.newInstance(6), ExecutionTypeRequest.newInstance(), Collections.emptySet(),
        ResourceSizing.newInstance(1, Resource.newInstance(1024, 1)), constraint.build())), new ArrayList<>());
  }
}

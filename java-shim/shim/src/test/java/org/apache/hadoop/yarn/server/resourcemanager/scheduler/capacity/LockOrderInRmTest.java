package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.NamedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import io.treadle.shim.metrics.ShimMetrics;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.OrderedScheduler.Rank;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Every thread takes locks in one order, so that none waits for another for ever: the lock of an attempt's asks, the one
 * for placements, the scheduler's, those of queues and applications (package-info of io.treadle.shim.commit).
 */
@Timeout(300)
class LockOrderInRmTest {
  private static final int NODES = 3;
  private static final int GANG = 3;
  private static final String TWO = "[{\"name\": \"single\", \"entry\": \"single\", \"select\": {\"types\": [\"SPARK\"]}},"
      + "{\"name\": \"gang\", \"entry\": \"gang\", \"gang\": true, \"precedence\": 1}]";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private final List<MockNM> nodes = new ArrayList<>();
  private MockRM rm;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private void start() throws Exception {
    conf.setClass(YarnConfiguration.RM_SCHEDULER, OrderedScheduler.class, ResourceScheduler.class);
    conf.set(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER,
        YarnConfiguration.PROCESSOR_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    conf.set(ShimConfig.ENGINE_CLASS, NamedEngine.class.getName());
    conf.set(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, "0.9");
    NamedEngine.reset("single", TWO);
    NamedEngine.script("single", frame -> NamedEngine.proposeAll("single", frame));
    NamedEngine.script("gang", LockOrderInRmTest::propose);
    rm = new MockRM(conf);
    ((OrderedScheduler) rm.getResourceScheduler()).watchAskLocks();
    rm.start();
    for (int i = 0; i < NODES; i++) {
      nodes.add(rm.registerNode("h" + i + ":1234", 64 * 1024));
    }
    Await.until("two engines schedule",
        () -> engine("gang") != null && engine("gang").numbers().get("LeaseHeld") == 1);
  }

  private ShimMetrics engine(String name) {
    return TestRms.scheduler(rm).shim().metrics(name);
  }

  /** The AM of each application, and as a transaction what it asks for. */
  private static byte[] propose(Frame frame) {
    List<int[]> rows = new ArrayList<>();
    for (int app = 0; app < 2 && frame.limit() > 0 && !frame.observe(); app++) {
      rows.add(new int[] {app, 0, app % NODES, 2 * app});
      for (int i = 0; i < GANG; i++) {
        rows.add(new int[] {app, 1, i % NODES, 2 * app + 1});
      }
    }
    return NamedEngine.inTransactions(frame, rows.toArray(new int[0][]));
  }

  private MockAM launch(String type) throws Exception {
    return TestRms.launchByEngine(rm, MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(1024, 1), rm).withQueue("default").withAppType(type)
        .withWaitForAppAcceptedState(false).build()));
  }

  private void heartbeats() throws Exception {
    for (MockNM node : nodes) {
      node.nodeHeartbeat(true);
    }
  }

  private int containers(MockAM am) {
    return TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size();
  }

  private void awaitContainers(MockAM am, int count) throws Exception {
    Await.until(am.getApplicationAttemptId() + " has " + count + " containers", () -> {
      heartbeats();
      am.doHeartbeat();
      return containers(am) == count;
    });
  }

  private static SchedulingRequest request(long id) {
    return SchedulingRequest.newInstance(id, Priority.newInstance(4), ExecutionTypeRequest.newInstance(),
        Collections.singleton("tag"), ResourceSizing.newInstance(1, Resource.newInstance(1024, 1)), null);
  }

  @Test
  void noThreadTakesLocksAgainstTheOrder() throws Exception {
    start();
    MockAM gang = launch("MAPREDUCE");
    MockAM single = launch("SPARK");
    gang.allocate("*", 1024, GANG, Collections.emptyList());
    single.allocate("*", 1024, 2, Collections.emptyList());
    awaitContainers(gang, 1 + GANG);
    awaitContainers(single, 3);
    MockAM constrained = launch("SPARK");
    constrained.addSchedulingRequest(Collections.singletonList(request(1)));
    constrained.doHeartbeat();
    awaitContainers(constrained, 2);
    TestRms.refresh(rm, conf);
    rm.killApp(gang.getApplicationAttemptId().getApplicationId());
    nodes.get(0).unRegisterNode();
    rm.drainEvents();
    assertEquals("", String.join("\n", OrderedScheduler.violations()));
    assertTrue(OrderedScheduler.held(Rank.ATTEMPT), "an AM's asks change");
    assertTrue(OrderedScheduler.held(Rank.PLACEMENTS), "a request with a constraint is placed");
    assertTrue(OrderedScheduler.held(Rank.SCHEDULER), "the scheduler works");
    assertTrue(OrderedScheduler.held(Rank.ATTEMPT, Rank.PLACEMENTS, Rank.SCHEDULER), "a transaction is committed");
  }
}

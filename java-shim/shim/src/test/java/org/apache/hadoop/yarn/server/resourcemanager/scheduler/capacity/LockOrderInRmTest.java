// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
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
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.OrderedScheduler.Rank;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Every thread takes locks in one order, so that none waits for another for ever: the lock of an attempt's asks, the
 * scheduler's, those of leaves and applications (package-info of io.treadle.shim.commit).
 */
@Timeout(300)
class LockOrderInRmTest {
  private static final int NODES = 3;
  private static final int GANG = 3;

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
    conf.set(ShimConfig.BATCH_SIZE, "2");
    conf.set(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, "0.9");
    ScriptedEngine.reset(LockOrderInRmTest::propose);
    rm = new MockRM(conf);
    ((OrderedScheduler) rm.getResourceScheduler()).watchAskLocks();
    rm.start();
    for (int i = 0; i < NODES; i++) {
      nodes.add(rm.registerNode("h" + i + ":1234", 64 * 1024));
    }
    TestRms.await(rm, "LeaseHeld", 1);
  }

  /** The AM of each application, what the first asks for as a transaction, and single containers for the second. */
  private static byte[] propose(Frame frame) {
    List<int[]> rows = new ArrayList<>();
    for (int app = 0; app < 3 && frame.limit() > 0 && !frame.observe(); app++) {
      rows.add(new int[] {app, 0, app % NODES, 10 * app});
      for (int i = 0; i < GANG && app < 2; i++) {
        rows.add(new int[] {app, 1, i % NODES, 10 * app + 1 + (app == 0 ? 0 : i)});
      }
    }
    return ScriptedEngine.inTransactions(frame, rows.toArray(new int[0][]));
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
    MockAM gang = TestRms.launchByEngine(rm, 1024);
    MockAM single = TestRms.launchByEngine(rm, 1024);
    gang.allocate("*", 1024, GANG, Collections.emptyList());
    single.allocate("*", 1024, 2, Collections.emptyList());
    awaitContainers(gang, 1 + GANG);
    awaitContainers(single, 3);
    MockAM constrained = TestRms.launchByEngine(rm, 1024);
    constrained.addSchedulingRequest(Collections.singletonList(request(1)));
    constrained.doHeartbeat();
    awaitContainers(constrained, 2);
    TestRms.refresh(rm, conf);
    rm.killApp(gang.getApplicationAttemptId().getApplicationId());
    nodes.get(0).unRegisterNode();
    rm.drainEvents();
    OrderedScheduler scheduler = (OrderedScheduler) rm.getResourceScheduler();
    assertTrue(scheduler.askLocks.containsKey(single.getApplicationAttemptId()));
    assertEquals("", String.join("\n", OrderedScheduler.violations()));
    assertTrue(OrderedScheduler.held(Rank.ATTEMPT), "an AM's asks change");
    assertTrue(OrderedScheduler.held(Rank.SCHEDULER), "the scheduler works");
    assertTrue(OrderedScheduler.held(Rank.ATTEMPT, Rank.SCHEDULER), "a transaction is committed");
  }
}

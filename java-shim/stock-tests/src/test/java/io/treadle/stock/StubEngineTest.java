// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.StubbedScheduler;
import org.junit.Test;

/** Without this Hadoop's tests "with Treadle enforcing" would prove nothing: the stub gets the lease, and places. */
public class StubEngineTest {
  private static final int CONTAINERS = 3;
  private static final long PATIENCE_NANOS = TimeUnit.MINUTES.toNanos(2);

  private static void await(String what, Callable<Boolean> condition) throws Exception {
    long begin = System.nanoTime();
    while (!condition.call()) {
      assertTrue(what, System.nanoTime() - begin < PATIENCE_NANOS);
      Thread.sleep(20);
    }
  }

  private static MockRM start() {
    YarnConfiguration conf = new YarnConfiguration();
    conf.setClass(YarnConfiguration.RM_SCHEDULER, StubbedScheduler.class, ResourceScheduler.class);
    MockRM rm = new MockRM(conf);
    rm.start();
    return rm;
  }

  private static MockAM launch(MockRM rm, MockNM node) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(1024, 1), rm).withWaitForAppAcceptedState(false).build());
    await("the master has its container", () -> {
      node.nodeHeartbeat(true);
      return app.getCurrentAppAttempt() != null
          && app.getCurrentAppAttempt().getState() == RMAppAttemptState.ALLOCATED;
    });
    MockAM master = rm.sendAMLaunched(app.getCurrentAppAttempt().getAppAttemptId());
    rm.waitForState(master.getApplicationAttemptId(), RMAppAttemptState.LAUNCHED);
    master.registerAppAttempt();
    return master;
  }

  @Test
  public void theStubHoldsTheLeaseAndPlacesEveryContainer() throws Exception {
    try (MockRM rm = start()) {
      StubbedScheduler scheduler = (StubbedScheduler) rm.getResourceScheduler();
      await("the stub holds the lease", () -> scheduler.numbers().get("LeaseHeld") == 1);
      MockNM node = rm.registerNode("host:1234", 8 * 1024);
      MockAM master = launch(rm, node);
      List<Container> placed = new ArrayList<>(
          master.allocate("*", 1024, CONTAINERS, Collections.emptyList()).getAllocatedContainers());
      await("the containers are placed", () -> {
        node.nodeHeartbeat(true);
        placed.addAll(master.allocate(Collections.emptyList(), Collections.emptyList()).getAllocatedContainers());
        return placed.size() == CONTAINERS;
      });
      await("all are counted as committed", () -> scheduler.numbers().get("Committed") == 1 + CONTAINERS);
      Map<String, Long> numbers = scheduler.numbers();
      assertEquals(1L, (long) numbers.get("LeaseHeld"));
      assertEquals(0L, (long) numbers.get("PlacedByCapacityScheduler"));
      assertEquals(0L, (long) numbers.get("CaughtExceptions"));
    }
  }
}

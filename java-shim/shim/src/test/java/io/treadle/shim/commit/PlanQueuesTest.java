// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.reservation.ReservationConstants;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceLimits;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.PlanQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.ReservationQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.QueueEntitlement;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * The reservation system's plan follower adds queues below a plan queue, changes what they may have and removes them:
 * beside us. What it set holds for the next proposal.
 */
class PlanQueuesTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private CapacityScheduler scheduler;
  private MockNM node;

  @BeforeEach
  void startPlan() throws Exception {
    cluster = ClusterFixture.cluster().set("root.a.reservable", "true").start();
    scheduler = cluster.scheduler();
    node = cluster.node("one", 20 * 1024, 20);
    // what is not reserved is the default queue's, which has everything at first
    ((ReservationQueue) scheduler.getQueue("a" + ReservationConstants.DEFAULT_QUEUE_SUFFIX))
        .setEntitlement(new QueueEntitlement(0, 1));
    scheduler.addQueue(new ReservationQueue(scheduler.getQueueContext(), "r1", (PlanQueue) scheduler.getQueue("a")));
    cluster.scheduler().setClosed(true);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void entitle(double share) throws Exception {
    scheduler.setEntitlement("r1", new QueueEntitlement((float) share, (float) share));
    // what a queue may have in MB is computed afresh when the next node comes or goes
    scheduler.getRootQueue().updateClusterResource(
        scheduler.getClusterResource(), new ResourceLimits(scheduler.getClusterResource()));
  }

  @Test
  void whatAPlanChangesHoldsForTheNextProposal() throws Exception {
    entitle(0.5);
    RMApp job = cluster.submit("r1", "ann", 1024);
    MockAM am = cluster.startAm(job, node);
    FiCaSchedulerApp app = cluster.attempt(job);
    Proposer proposer = new Proposer(cluster);
    am.allocate("*", 1024, 20, Collections.emptyList());
    CommitResult result = proposer.add(20, app, PRIORITY, node).commit();
    assertEquals(9, result.count(Fate.COMMITTED), "half of the plan's maximum of 20 GB, less the AM");
    assertEquals(11, result.count(Fate.QUEUE_MAXIMUM));
    entitle(0.8);
    assertEquals(6, proposer.add(11, app, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals("", new Accounting(scheduler).mistakes());
    cluster.rm().killApp(job.getApplicationId());
    cluster.rm().waitForState(job.getApplicationId(), RMAppState.KILLED);
    cluster.rm().waitForAppRemovedFromScheduler(job.getApplicationId());
    entitle(0);
    scheduler.removeQueue("r1");
    assertNull(scheduler.getQueue("r1"));
    assertEquals(Fate.UNKNOWN_APPLICATION, proposer.add(0, 0, 0).commit().fate(0));
    assertEquals("", new Accounting(scheduler).mistakes());
  }
}

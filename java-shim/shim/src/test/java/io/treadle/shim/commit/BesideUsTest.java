// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.monitor.capacity.ProportionalCapacityPreemptionPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerHealth;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What stock code goes on doing, or showing, while the gate is closed. */
class BesideUsTest {
  private static final int PRIORITY = 1;
  private static final String PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption.";

  private ClusterFixture cluster;
  private Proposer proposer;
  private MockNM node;

  @BeforeEach
  void startNode() throws Exception {
    cluster = ClusterFixture.cluster()
        // without monitors no queue may be preempted; the RM's own looks so rarely that the test's does the work
        .site(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS, "true")
        .site(PREEMPTION + "monitoring_interval", "3600000")
        .site(PREEMPTION + "max_wait_before_kill", "0")
        .site(PREEMPTION + "total_preemption_per_round", "1.0")
        .site(PREEMPTION + "natural_termination_factor", "1.0").start();
    node = cluster.node("one", 8192, 8);
    proposer = new Proposer(cluster);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private static void ask(MockAM am, int containers) throws Exception {
    am.allocate("*", 1024, containers, Collections.emptyList());
  }

  private MockAM start(String queue) throws Exception {
    MockAM am = cluster.startAm(cluster.submit(queue, "ann", 1024), node);
    cluster.scheduler().setClosed(true);
    return am;
  }

  private FiCaSchedulerApp attempt(MockAM am) {
    return cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
  }

  /** The monitor takes back what a queue has beyond its capacity, and an engine may give it to whom it belongs. */
  @Test
  void preemptionMonitorMakesRoomForTheProposalsOfAPoorQueue() throws Exception {
    MockAM poorAm = start("b");
    MockAM richAm = start("a");
    ask(poorAm, 3);
    ask(richAm, 6);
    FiCaSchedulerApp poor = attempt(poorAm);
    FiCaSchedulerApp rich = attempt(richAm);
    assertEquals(6, proposer.add(6, rich, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals(Fate.NODE_FULL, proposer.add(poor, PRIORITY, node).commit().fate(0));
    CapacityScheduler scheduler = cluster.scheduler();
    ProportionalCapacityPreemptionPolicy monitor = new ProportionalCapacityPreemptionPolicy();
    monitor.init(scheduler.getConfiguration(), cluster.rm().getRMContext(), scheduler);
    // a look chooses containers, a later one kills those that are still there
    Await.until("the rich queue is down to its half of 8 GB", () -> {
      monitor.editSchedule();
      cluster.rm().drainEvents();
      return rich.getLiveContainers().size() == 4;
    });
    assertEquals(3, proposer.add(3, poor, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals("", new Accounting(scheduler).mistakes());
  }

  @Test
  void schedulerHealthShowsNativeWorkOnly() throws Exception {
    MockAM am = start("a");
    SchedulerHealth health = cluster.scheduler().getSchedulerHealth();
    assertEquals(1, health.getAggregateAllocationCount(), "the AM");
    ask(am, 2);
    assertEquals(2, proposer.add(2, attempt(am), PRIORITY, node).commit().count(Fate.COMMITTED));
    cluster.heartbeatAll();
    assertEquals(1, health.getAggregateAllocationCount());
  }

  @Test
  void metricsOfTheNativeSearchStandStillAndThoseOfCommitsGoOn() throws Exception {
    MockAM am = start("a");
    CapacitySchedulerMetrics metrics = CapacitySchedulerMetrics.getMetrics();
    long searches = metrics.getNumOfAllocates();
    long commits = metrics.getNumOfCommitSuccess();
    ask(am, 2);
    assertEquals(2, proposer.add(2, attempt(am), PRIORITY, node).commit().count(Fate.COMMITTED));
    cluster.heartbeatAll();
    assertEquals(searches, metrics.getNumOfAllocates());
    assertEquals(commits + 2, metrics.getNumOfCommitSuccess());
  }

  @Test
  void diagnosticsOfAnApplicationThatAwaitsItsAmStayAsTheyWereAtItsActivation() throws Exception {
    cluster.scheduler().setClosed(true);
    RMAppAttempt waiting = cluster.submit("a", "ann", 1024).getCurrentAppAttempt();
    String activated = waiting.getDiagnostics();
    assertTrue(activated.contains("waiting for resources to be assigned for AM"), activated);
    cluster.heartbeatAll();
    assertEquals(activated, waiting.getDiagnostics());
  }

  @Test
  void heartbeatGetsTheLockAfterOneProposalIfThatTookLong() throws Exception {
    MockAM am = start("a");
    ask(am, 5);
    cluster.scheduler().heartbeatWaits(() -> {
      long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(1);
      while (System.nanoTime() - end < 0) {
        Thread.yield();
      }
      return true;
    });
    assertEquals(5, batchesOf(5, attempt(am)));
  }

  @Test
  void withoutHeartbeatsThatWaitABatchIsCommittedAtOnce() throws Exception {
    MockAM am = start("a");
    ask(am, 5);
    assertEquals(1, batchesOf(5, attempt(am)));
  }

  private int batchesOf(int containers, FiCaSchedulerApp app) {
    AtomicInteger batches = new AtomicInteger();
    proposer.mayCommit(() -> batches.incrementAndGet() > 0);
    assertEquals(containers, proposer.add(containers, app, PRIORITY, node).commit().count(Fate.COMMITTED));
    return batches.get();
  }
}

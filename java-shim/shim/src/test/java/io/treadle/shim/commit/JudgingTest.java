// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import java.util.Map;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** In {@code observe_only} an answer is judged as if it were committed, and nothing is. */
class JudgingTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private Proposer proposer;
  private MockNM one;
  private MockNM two;
  private MockAM am;
  private FiCaSchedulerApp app;

  @BeforeEach
  void startJob() throws Exception {
    cluster = ClusterFixture.cluster().set("root.a.maximum-capacity", "75").start();
    one = cluster.node("one", 8192, 8);
    two = cluster.node("two", 8192, 8);
    am = cluster.startAm(cluster.submit("a", "ann", 1024), one);
    app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  @Test
  @Shows(Fate.OBSERVED)
  void judgingCountsWhatEarlierProposalsWouldTake() throws Exception {
    am.allocate("*", 3072, 3, Collections.emptyList());
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    CommitResult result = proposer.add(4, app, PRIORITY, one).judge();
    assertEquals(2, result.count(Fate.OBSERVED), "7 GB are free");
    assertEquals(2, result.count(Fate.NODE_FULL));
    result = proposer.add(app, PRIORITY, one).add(3, app, PRIORITY, two).judge();
    assertEquals(3, result.count(Fate.OBSERVED));
    assertEquals(Fate.DUPLICATE, result.fate(3));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
  }

  @Test
  void judgingCountsQueues() throws Exception {
    am.allocate("*", 1024, 50, Collections.emptyList());
    CommitResult result = proposer.add(7, app, PRIORITY, one).add(8, app, PRIORITY, two).judge();
    assertEquals(11, result.count(Fate.OBSERVED), "12 GB less the AM");
    assertEquals(4, result.count(Fate.QUEUE_MAXIMUM));
  }
}

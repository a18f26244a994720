// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.metrics.ShimMetrics;
import java.util.Collections;
import java.util.HashMap;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.junit.jupiter.api.Test;

/** What is done before commits is not done for an engine that has lost the right to commit. */
class CommitPipelineTest {
  @Test
  void reservationsOfTheStockSchedulerStayWhileItSchedules() throws Exception {
    try (ClusterFixture cluster = ClusterFixture.cluster().start()) {
      MockNM node = cluster.node("one", 8192, 8);
      cluster.node("two", 8192, 8);
      MockAM am = cluster.startAm(cluster.submit("a", "ann", 1024), node);
      CommitPipeline pipeline = new CommitPipeline(cluster.scheduler(),
          new ShimMetrics(),
          new CommitSettings(48, Proposer.NODE_STALE_MS, Time::monotonicNow),
          new HashMap<>(), any -> { });
      am.allocate("*", 5120, 3, Collections.emptyList());
      cluster.heartbeatAll();
      cluster.heartbeatAll();
      long made = reserved(cluster);
      assertTrue(made > 0, "the stock scheduler made a reservation");
      pipeline.beforeCommit(() -> false);
      assertEquals(made, reserved(cluster));
      pipeline.beforeCommit(() -> true);
      assertEquals(0, reserved(cluster));
    }
  }

  private static long reserved(ClusterFixture cluster) {
    return cluster.scheduler().getAllNodes().stream().filter(node -> node.getReservedContainer() != null).count();
  }
}

package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.Answers;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.engines.Served;
import io.treadle.shim.wire.Fate;
import java.util.Collections;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.Test;

/**
 * An engine that proposes for another engine's applications gets nothing, however often it tries: the system property
 * {@code treadle.foreign} says how often.
 */
class NotOwnerTest {
  private static final int PROPOSALS = Integer.getInteger("treadle.foreign", 200_000);

  /** An engine that serves one application. */
  private static final class ApplicationShare implements Served {
    private final FiCaSchedulerApp mine;

    ApplicationShare(FiCaSchedulerApp mine) {
      this.mine = mine;
    }

    @Override
    public boolean serves(FiCaSchedulerApp app) {
      return app.getApplicationId().equals(mine.getApplicationId());
    }

    @Override
    public int generation() {
      return 0;
    }
  }

  @Test
  void othersApplicationsGetNothing() throws Exception {
    try (ClusterFixture cluster = ClusterFixture.cluster().start()) {
      MockNM node = cluster.node("one", 64 * 1024, 64);
      RMApp mine = cluster.submit("a", "u", 1024);
      MockAM myAm = cluster.startAm(mine, node);
      RMApp other = cluster.submit("b", "u", 1024);
      MockAM otherAm = cluster.startAm(other, node);
      cluster.scheduler().setClosed(true);
      myAm.allocate("*", 1024, 2, Collections.emptyList());
      otherAm.allocate("*", 1024, 2, Collections.emptyList());
      ApplicationShare share = new ApplicationShare(cluster.attempt(mine));
      NamedIndices indices = new NamedIndices();
      Committer committer = new Committer(cluster.scheduler(),
          new CommitSettings(48, Proposer.NODE_STALE_MS, 64, Time::monotonicNow), CommitListener.NONE, share,
          new AskLocks(), new CommitTurns());
      int[][] proposals = new int[PROPOSALS][];
      for (int i = 0; i < PROPOSALS; i++) {
        proposals[i] = proposal(indices, cluster.attempt(i == PROPOSALS / 2 ? mine : other), node);
      }
      CommitResult result =
          committer.commit(Answers.of(proposals), indices, Integer.MAX_VALUE, () -> true,
              new CommitTime(System::nanoTime, Long.MAX_VALUE / 2));
      assertEquals(PROPOSALS - 1, result.count(Fate.NOT_OWNER));
      assertEquals(1, result.count(Fate.COMMITTED));
      assertEquals(1 + 1, cluster.attempt(mine).getLiveContainers().size());
      assertEquals(1, cluster.attempt(other).getLiveContainers().size());
    }
  }

  private static int[] proposal(NamedIndices indices, FiCaSchedulerApp app, MockNM node) {
    return new int[] {indices.of(app.getApplicationAttemptId()),
        indices.of(app.getApplicationAttemptId(), Proposer.key(app, 1)), indices.of(node.getNodeId())};
  }
}

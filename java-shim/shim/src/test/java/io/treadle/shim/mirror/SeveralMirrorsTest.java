package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.Fate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.junit.jupiter.api.Test;

/** Several mirrors of one RM, each with a pace, names and indices of its own. */
class SeveralMirrorsTest {
  private final Random random = new Random(5);
  private final List<MockAM> ams = new ArrayList<>();
  private final List<MockNM> nodes = new ArrayList<>();

  private void operate(Cluster cluster) throws Exception {
    int turn = random.nextInt(10);
    if (turn < 5) {
      nodes.get(random.nextInt(nodes.size())).nodeHeartbeat(true);
    } else if (turn < 8) {
      MockAM am = ams.get(random.nextInt(ams.size()));
      am.allocate(am.createReq(new String[] {"n" + random.nextInt(3)}, 1024, 1 + random.nextInt(3), random.nextInt(4),
          -1), new ArrayList<ContainerId>());
    } else if (turn == 8) {
      nodes.add(cluster.rm.registerNode("n" + nodes.size() + ":1234", 16 * 1024, 16));
    } else if (nodes.size() > 2) {
      nodes.remove(nodes.size() - 1).unRegisterNode();
    }
  }

  private void begin(Cluster cluster) throws Exception {
    for (int i = 0; i < 4; i++) {
      nodes.add(cluster.rm.registerNode("n" + i + ":1234", 16 * 1024, 16));
    }
    for (String queue : Arrays.asList("a", "b")) {
      RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
          .createWithMemory(1024, cluster.rm).withQueue(queue).withUser("alice").withUnmanagedAM(false).build());
      ams.add(MockRM.launchAndRegisterAM(app, cluster.rm, nodes.get(0)));
    }
  }

  @Test
  void eachKnowsTheTruthAtItsOwnPace() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(8192))) {
      begin(cluster);
      cluster.tickAndCheck();
      Cluster.Reader slow = cluster.reader();
      Cluster.Reader late = null;
      for (int i = 0; i < 90; i++) {
        operate(cluster);
        cluster.tickAndCheck();
        if (i % 7 == 0) {
          slow.tickAndCheck();
        }
        if (i == 40) {
          late = cluster.reader();
        }
        if (i >= 40 && i % 3 == 0) {
          late.tickAndCheck();
        }
      }
      cluster.rm.killApp(ams.get(0).getApplicationAttemptId().getApplicationId());
      cluster.rm.waitForState(ams.get(0).getApplicationAttemptId().getApplicationId(), RMAppState.KILLED);
      cluster.tickAndCheck();
      slow.tickAndCheck();
      late.tickAndCheck();
      for (EngineModel model : Arrays.asList(cluster.model, slow.model, late.model)) {
        assertEquals(1, model.snapshots);
        assertEquals(1, model.applications.size());
      }
      assertTrue(cluster.model.containers.size() > 10, cluster.model.containers.toString());
    }
  }

  @Test
  void whoLagsGetsASnapshotAndNobodyElseDoes() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      begin(cluster);
      cluster.tickAndCheck();
      Cluster.Reader slow = cluster.reader();
      slow.tickAndCheck();
      int marks = TappedScheduler.JOURNAL_CAPACITY / 4;
      for (int batch = 0; batch < 5; batch++) {
        for (int i = 0; i < marks; i++) {
          cluster.scheduler.journal.usageChanged(ApplicationId.newInstance(1, batch * marks + i));
        }
        operate(cluster);
        cluster.tickAndCheck();
      }
      slow.tickAndCheck();
      assertEquals(2, slow.model.snapshots);
      assertEquals(2, slow.mirror.snapshots());
      assertEquals(1, cluster.model.snapshots);
      for (int i = 0; i < 20; i++) {
        operate(cluster);
        cluster.tickAndCheck();
        slow.tickAndCheck();
      }
      assertEquals(2, slow.model.snapshots);
      assertEquals(1, cluster.model.snapshots);
    }
  }

  @Test
  void aMirrorThatNobodyReadsDoesNotPauseTheOthers() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      begin(cluster);
      cluster.tickAndCheck();
      Cluster.Reader other = cluster.reader();
      other.tickAndCheck();
      other.mirror.hungUp();
      for (int i = 0; i < 20; i++) {
        operate(cluster);
        cluster.tickAndCheck();
      }
      assertEquals(1, cluster.model.snapshots);
      other.tickAndCheck();
      assertEquals(2, other.model.snapshots);
    }
  }

  @Test
  void anEngineHearsOfItsOwnProposalsOnly() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.tickAndCheck();
      Cluster.Reader other = cluster.reader();
      other.tickAndCheck();
      cluster.mirror.fate(1, 0, Fate.COMMITTED);
      other.mirror.fate(1, 7, Fate.USER_LIMIT);
      other.tickAndCheck();
      cluster.tickAndCheck();
      assertEquals(Collections.singletonList("1 0 0"), cluster.model.fates);
      assertEquals(Collections.singletonList("1 7 18"), other.model.fates);
      other.mirror.fate(2, 1, Fate.COMMITTED);
      other.mirror.snapshotNeeded();
      other.tickAndCheck();
      other.tickAndCheck();
      assertEquals(Collections.singletonList("1 7 18"), other.model.fates, "a snapshot has states, not fates");
    }
  }
}

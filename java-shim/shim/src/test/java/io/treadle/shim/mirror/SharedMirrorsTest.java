package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.engines.Served;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.Test;

/** Mirrors of several engines of one RM: each has all nodes and queues, and the applications of its engine only. */
class SharedMirrorsTest {
  private final Random random = new Random(7);
  private final List<MockAM> ams = new ArrayList<>();
  private final List<MockNM> nodes = new ArrayList<>();
  private final Set<ApplicationId> theOthers = new HashSet<>();
  private int generation;

  /** One of two engines, which share all applications. */
  private final class Share implements Served {
    private final boolean other;

    Share(boolean other) {
      this.other = other;
    }

    @Override
    public boolean serves(FiCaSchedulerApp app) {
      return theOthers.contains(app.getApplicationId()) == other;
    }

    @Override
    public int generation() {
      return generation;
    }
  }

  private static ApplicationId id(MockAM am) {
    return am.getApplicationAttemptId().getApplicationId();
  }

  private void begin(Cluster cluster) throws Exception {
    for (int i = 0; i < 4; i++) {
      nodes.add(cluster.rm.registerNode("n" + i + ":1234", 16 * 1024, 16));
    }
    for (int i = 0; i < 4; i++) {
      RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
          .createWithMemory(1024, cluster.rm).withQueue(i % 2 == 0 ? "a" : "b").withUser("alice")
          .withUnmanagedAM(false).build());
      ams.add(MockRM.launchAndRegisterAM(app, cluster.rm, nodes.get(i)));
    }
  }

  private void operate() throws Exception {
    if (random.nextBoolean()) {
      nodes.get(random.nextInt(nodes.size())).nodeHeartbeat(true);
    } else {
      MockAM am = ams.get(random.nextInt(ams.size()));
      am.allocate(am.createReq(new String[] {"n" + random.nextInt(4)}, 1024, 1 + random.nextInt(3),
          random.nextInt(4), -1), new ArrayList<ContainerId>());
    }
  }

  private void move(MockAM am) {
    if (!theOthers.remove(id(am))) {
      theOthers.add(id(am));
    }
    generation++;
  }

  @Test
  void eachKnowsItsOwnApplicationsAndAllElseWhileTheyMove() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(8192))) {
      begin(cluster);
      theOthers.add(id(ams.get(3)));
      Cluster.Reader one = cluster.reader(new Share(false));
      Cluster.Reader other = cluster.reader(new Share(true));
      one.tickAndCheck();
      other.tickAndCheck();
      for (int i = 0; i < 150; i++) {
        operate();
        if (i % 5 == 4) {
          move(ams.get(random.nextInt(ams.size())));
        }
        one.tickAndCheck();
        if (i % 3 == 0) {
          other.tickAndCheck();
        }
      }
      other.tickAndCheck();
      assertEquals(1, one.model.snapshots);
      assertEquals(1, other.model.snapshots);
      assertTrue(one.model.moved.size() > 5, one.model.moved.toString());
      assertEquals(4, one.model.applications.size() + other.model.applications.size());
      // whose commits were sent as others'
      assertTrue(one.model.sequences.values().stream().mapToLong(Long::longValue).sum() > 0);
    }
  }

  /** What has moved is no longer sent, nor are its containers; its index still names the attempt. */
  @Test
  void anOldIndexIsStillThatOfTheAttemptThatMoved() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      begin(cluster);
      Cluster.Reader one = cluster.reader(new Share(false));
      one.tickAndCheck();
      MockAM am = ams.get(2);
      move(am);
      one.tickAndCheck();
      assertEquals(1, one.model.moved.size());
      assertEquals(am.getApplicationAttemptId(), one.mirror.application(2));
      int before = one.model.containers.size();
      am.allocate(am.createReq(new String[] {"n0"}, 1024, 3, 1, -1), new ArrayList<ContainerId>());
      nodes.get(0).nodeHeartbeat(true);
      nodes.get(0).nodeHeartbeat(true);
      one.tickAndCheck();
      assertEquals(before, one.model.containers.size());
      move(am);
      one.tickAndCheck();
      assertEquals(am.getApplicationAttemptId(), one.mirror.application(4));
    }
  }
}

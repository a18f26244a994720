// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptImpl;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.junit.jupiter.api.Test;

class MirrorTest {
  private static RMApp submit(Cluster cluster, String queue, String user) throws Exception {
    return MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue(queue).withUser(user).withAppName("name of " + user).withAppType("MAPREDUCE")
        .withApplicationTags(Collections.singleton("nightly")).withUnmanagedAM(false).build());
  }

  @Test
  void aSnapshotTellsEverything() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.rm.registerNode("n2:1234", 8 * 1024, 8);
      MockAM am = MockRM.launchAndRegisterAM(submit(cluster, "a", "alice"), cluster.rm, node);
      am.allocate(am.createReq(new String[] {"n1", "n2"}, 2048, 7, 5, -1), new ArrayList<ContainerId>());
      cluster.tickAndCheck();
      assertEquals(1, cluster.model.snapshots);
      assertEquals(Arrays.asList("memory-mb 1", "vcores 0"), cluster.model.resourceTypes);
      assertEquals("40", cluster.model.settings.get("node-locality-delay"));
      assertEquals("enforce", cluster.model.settings.get("mode"));
      assertEquals("2000 10 48", cluster.model.settings.get("lease-ms") + " " + cluster.model.settings.get("tick-ms")
          + " "
          + cluster.model.settings.get("batch-size"));
      assertEquals(3, cluster.model.queues.size());
      assertTrue(cluster.model.queues.containsValue("root.a state=1 leaf=1 policy=fifo weight=0 priority=0"));
      assertTrue(cluster.model.queues.containsValue("root.b state=1 leaf=1 policy=fair weight=1 priority=3"));
      EngineModel.Application app = cluster.model.applications.get(0L);
      assertTrue(app.row.startsWith("name of alice MAPREDUCE alice root.a"), app.row);
      assertEquals(Collections.singleton("nightly"), app.tags);
      assertEquals(1, cluster.model.users.size());
      assertEquals(am.getApplicationAttemptId(), cluster.directory().application(0));
      assertEquals(7, cluster.directory().requestKey(0, cluster.directory().requestKeys(0) - 1).getPriority()
          .getPriority());
    }
  }

  @Test
  void deltasFollowAnApplicationThroughItsLife() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.tickAndCheck();
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      RMApp app = submit(cluster, "b", "bob");
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.get(0L).row.endsWith("awaiting_am=1"));
      MockAM am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.get(0L).row.endsWith("awaiting_am=0"));
      assertTrue(cluster.model.containers.get(0).endsWith("event=1 exit=0 treadle=1 am=1"),
          cluster.model.containers.toString());
      am.allocate(am.createReq(new String[] {"n1"}, 1024, 5, 4, -1), new ArrayList<ContainerId>());
      cluster.tickAndCheck();
      assertEquals(1, cluster.model.applications.get(0L).localities.size());
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      ContainerId container = ContainerId.newContainerId(am.getApplicationAttemptId(), 2);
      am.doHeartbeat();
      node.nodeHeartbeat(am.getApplicationAttemptId(), 2, ContainerState.RUNNING);
      node.nodeHeartbeat(am.getApplicationAttemptId(), 2, ContainerState.COMPLETE);
      cluster.tickAndCheck();
      assertTrue(cluster.model.containers.contains(container.getContainerId() + " event=3 exit=0 treadle=1 am=0"),
          cluster.model.containers.toString());
      am.allocate(AllocateRequest.newInstance(0, 0.5f, Collections.emptyList(), Collections.emptyList(),
          ResourceBlacklistRequest.newInstance(Collections.singletonList("n1"), Collections.emptyList())));
      cluster.tickAndCheck();
      assertEquals(Collections.singleton("n1"), cluster.model.applications.get(0L).blacklist);
      cluster.rm.killApp(app.getApplicationId());
      cluster.rm.waitForState(app.getApplicationId(), RMAppState.KILLED);
      cluster.tickAndCheck();
      assertTrue(cluster.model.applications.isEmpty());
      assertNull(cluster.directory().application(0));
      assertEquals(1, cluster.model.snapshots);
    }
  }

  /** The attempt takes its container on another thread, which may be faster than the tap behind the commit. */
  @Test
  void aMastersContainerIsOneThoughItsAttemptHasTakenItAlready() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.tickAndCheck();
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      RMApp app = submit(cluster, "a", "alice");
      cluster.tickAndCheck();
      RMAppAttemptImpl attempt = (RMAppAttemptImpl) app.getCurrentAppAttempt();
      cluster.scheduler.afterCommit = () -> attempt.setMasterContainer(cluster.scheduler
          .getApplicationAttempt(attempt.getAppAttemptId()).getLiveContainers().iterator().next().getContainer());
      MockRM.launchAndRegisterAM(app, cluster.rm, node);
      cluster.tickAndCheck();
      assertTrue(cluster.model.containers.get(0).endsWith("event=1 exit=0 treadle=1 am=1"),
          cluster.model.containers.toString());
    }
  }

  @Test
  void nothingHappensNothingIsSent() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      submit(cluster, "a", "alice");
      cluster.tick();
      cluster.tick();
      List<byte[]> frames = cluster.tick();
      assertEquals(1, frames.size());
      assertEquals(48, frames.get(0).length);
    }
  }

  @Test
  void anotherNodeGetsTheIndexOfOneThatHasGoneALittleLater() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      assertEquals(node.getNodeId(), cluster.directory().node(0));
      node.unRegisterNode();
      cluster.tickAndCheck();
      assertNull(cluster.directory().node(0));
      MockNM soon = cluster.rm.registerNode("n1:1234", 4 * 1024, 4);
      cluster.tickAndCheck();
      assertEquals(soon.getNodeId(), cluster.directory().node(1));
      for (int i = 0; i < 7; i++) {
        cluster.tick();
      }
      MockNM later = cluster.rm.registerNode("n2:1234", 4 * 1024, 4);
      cluster.tickAndCheck();
      assertEquals(2, cluster.directory().nodes());
      assertEquals(later.getNodeId(), cluster.directory().node(0));
    }
  }

  @Test
  void aStaleNodeIsNotUsable() throws Exception {
    MirrorSettings settings =
        new MirrorSettings(1 << 20, 10_000, 0, Cluster.NEVER_MS);
    try (Cluster cluster = new Cluster(Cluster.conf(), settings)) {
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tick();
      assertTrue(cluster.model.nodes.get(0L).contains("state=1"));
      long later = Time.monotonicNow() + 60_000;
      cluster.model.apply(cluster.mirror.frames(0, later, cluster.options()));
      assertTrue(cluster.model.nodes.get(0L).contains("state=2"), cluster.model.nodes.toString());
    }
  }

  @Test
  void aUsableNodeIsLookedAtInEveryFifthTurnAndWhenItMayHaveGoneStale() throws Exception {
    MirrorSettings settings =
        new MirrorSettings(1 << 20, 60_000, 10_000, Cluster.NEVER_MS);
    try (Cluster cluster = new Cluster(Cluster.conf(), settings)) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.rm.drainEvents();
      FiCaSchedulerNode known = cluster.scheduler.getNode(node.getNodeId());
      long heardMs = known.getLastHeartbeatMonotonicTime();
      assertEquals(1, nodesWritten(cluster, heardMs), "the snapshot");
      known.updateLabels(Collections.singleton("unannounced"));
      assertEquals(0, nodesWritten(cluster, heardMs + 49_000));
      assertEquals(1, nodesWritten(cluster, heardMs + 59_000), "the fifth turn was at 50 s");
      assertEquals(1, nodesWritten(cluster, heardMs + 70_000), "it has gone stale at 60 s");
      assertTrue(cluster.model.nodes.get(0L).contains("state=2"), cluster.model.nodes.toString());
      known.updateLabels(Collections.emptySet());
      assertEquals(1, nodesWritten(cluster, heardMs + 80_000), "one that cannot be used is looked at in each turn");
    }
  }

  private static int nodesWritten(Cluster cluster, long monotonicMs) throws Exception {
    List<byte[]> frames = cluster.mirror.frames(0, monotonicMs, cluster.options());
    cluster.model.apply(frames);
    int rows = 0;
    for (byte[] frame : frames) {
      rows += new FrameReader(frame).table(Section.NODES).rows();
    }
    return rows;
  }

  @Test
  void aLongSnapshotIsSplit() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(4096))) {
      for (int i = 0; i < 40; i++) {
        String name = "a-node-with-a-name-of-more-than-sixty-characters-to-fill-the-frames-" + i;
        cluster.rm.registerNode(name + ":1234", 1024 * (i + 1), 16);
      }
      List<byte[]> frames = cluster.tick();
      assertTrue(frames.size() > 1, "" + frames.size());
      assertTrue(new FrameReader(frames.get(0)).isSnapshot());
      assertFalse(new FrameReader(frames.get(1)).isSnapshot());
      assertEquals(frames.size(), cluster.mirror.sequence());
      cluster.check();
      assertEquals(40, cluster.directory().nodes());
      cluster.tickAndCheck();
    }
  }

  @Test
  void anOverflowMakesASnapshot() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      cluster.tickAndCheck();
      for (int i = 0; i <= TappedScheduler.JOURNAL_CAPACITY; i++) {
        cluster.scheduler.journal.applicationChanged(ApplicationId.newInstance(1, i));
      }
      assertTrue(cluster.scheduler.journal.isPaused());
      cluster.mirror.fate(1, 0, Fate.NODE_FULL);
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      assertEquals(2, cluster.model.snapshots);
      assertEquals(2, cluster.mirror.snapshots());
      assertTrue(cluster.model.fates.isEmpty());
    }
  }

  @Test
  void indicesAreGivenOutAfreshBeforeTheyAreTooMany() throws Exception {
    MirrorSettings settings = Cluster.settings(1 << 20);
    settings.indexLimit = 20;
    try (Cluster cluster = new Cluster(Cluster.conf(), settings)) {
      cluster.tickAndCheck();
      for (int i = 0; i < 30; i++) {
        MockNM node = cluster.rm.registerNode("n" + i + ":1234", 1024, 1);
        cluster.tick();
        node.unRegisterNode();
        cluster.tickAndCheck();
      }
      assertTrue(cluster.model.snapshots >= 2, "" + cluster.model.snapshots);
      assertTrue(cluster.directory().nodes() < 30, "" + cluster.directory().nodes());
    }
  }

  /** An engine that does not come back must not keep applications, queues and nodes that have gone in memory. */
  @Test
  void nothingIsKeptWhenNobodyListens() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockRM.launchAndRegisterAM(submit(cluster, "a", "alice"), cluster.rm, node);
      cluster.tickAndCheck();
      Object app = cluster.scheduler.getApplicationAttempt(cluster.directory().application(0));
      assertTrue(Reach.from(cluster.mirror).to(app));
      cluster.mirror.hungUp();
      assertFalse(Reach.from(cluster.mirror).to(app));
      assertEquals(0, cluster.directory().applications());
      assertEquals(0, cluster.directory().nodes());
      cluster.tickAndCheck();
      assertEquals(2, cluster.model.snapshots);
    }
  }

  @Test
  void fatesCrossInOrder() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockRM.launchAndRegisterAM(submit(cluster, "a", "alice"), cluster.rm, node);
      cluster.tick();
      cluster.mirror.fate(1, 0, Fate.COMMITTED);
      cluster.mirror.fate(1, 1, Fate.COMMITTED);
      cluster.mirror.fate(1, 2, Fate.USER_LIMIT);
      cluster.mirror.fate(1, 4, Fate.USER_LIMIT);
      cluster.mirror.fate(2, 5, Fate.USER_LIMIT);
      List<byte[]> frames = cluster.tick();
      assertEquals(Arrays.asList("1 0 0", "1 1 0", "1 2 18", "1 4 18", "2 5 18"), cluster.model.fates);
      assertEquals(4, new FrameReader(frames.get(0)).table(Section.FATES).rows());
    }
  }
}

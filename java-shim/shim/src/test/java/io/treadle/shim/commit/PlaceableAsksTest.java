// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Cap;
import io.treadle.shim.EngineView;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is found is what a commit would take, and nothing else. */
@Timeout(300)
class PlaceableAsksTest {
  private ClusterFixture cluster;
  private MockNM node;
  private PlaceableAsks search;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void start(ClusterFixture.Builder description) throws Exception {
    cluster = description.set("per-node-heartbeat.maximum-offswitch-assignments", "100").start();
    node = cluster.node("one", 8 * 1024, 64);
    search = new PlaceableAsks(cluster.scheduler(),
        new CommitSettings(48, Proposer.NODE_STALE_MS, 64, Time::monotonicNow), new EngineView(any -> { }));
  }

  private MockAM job(String where, int memoryMb, int asks) throws Exception {
    RMApp app = cluster.submit("a", "u", 1024);
    MockAM am = cluster.startAm(app, node);
    cluster.scheduler().setClosed(true);
    am.allocate(where, memoryMb, asks, Collections.emptyList());
    cluster.rm().drainEvents();
    return am;
  }

  private int found() {
    search.begin();
    int calls = 0;
    while (!search.goOn()) {
      calls++;
      assertTrue(calls < 1000, "a search ends");
    }
    return search.found().size();
  }

  @Test
  void findsAnAskThatFits() throws Exception {
    start(ClusterFixture.cluster());
    MockAM am = job("*", 1024, 3);
    assertEquals(1, found());
    assertTrue(search.complete());
    FiCaSchedulerApp attempt = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    assertTrue(search.found().contains(new Ask(am.getApplicationAttemptId(), Proposer.key(attempt, 1))));
  }

  @Test
  void findsNothingOnAFullNode() throws Exception {
    start(ClusterFixture.cluster());
    job("*", 1024, 50);
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    assertEquals(0, found());
    assertTrue(search.complete());
  }

  @Test
  void findsNothingThatIsTooLarge() throws Exception {
    start(ClusterFixture.cluster());
    job("*", 8 * 1024, 1);
    assertEquals(0, found());
    assertTrue(search.complete());
  }

  @Test
  void findsNothingOnABlacklistedNode() throws Exception {
    start(ClusterFixture.cluster());
    MockAM am = job("*", 1024, 1);
    assertEquals(1, found());
    cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId())
        .updateBlacklist(Collections.singletonList("one"), Collections.emptyList());
    assertEquals(0, found());
    assertTrue(search.complete());
  }

  @Test
  void findsNothingBeyondAQueuesMaximum() throws Exception {
    start(ClusterFixture.cluster().set("root.a.maximum-capacity", "50"));
    job("*", 1024, 50);
    assertEquals(1, found());
    cluster.scheduler().setClosed(false);
    cluster.heartbeatAll();
    assertEquals(0, found());
    assertTrue(search.complete());
  }

  @Test
  void aSearchThatHeartbeatsInterruptEndsWhenItHasFoundEnough() throws Exception {
    start(ClusterFixture.cluster());
    MockAM am = job("*", 1024, 1);
    for (int priority = 2; priority < 600; priority++) {
      am.allocate(Collections.singletonList(am.createResourceReq("*", 2048, priority, 1)), Collections.emptyList());
    }
    cluster.rm().drainEvents();
    cluster.scheduler().heartbeatWaits(() -> true);
    assertEquals(256, found());
    assertFalse(search.complete());
  }

  @Test
  void asksForAnotherPartitionDoNotHideTheRest() throws Exception {
    start(ClusterFixture.cluster().label("gpu", true, "none")
        .set("root.accessible-node-labels", "*").set("root.accessible-node-labels.gpu.capacity", "100")
        .set("root.a.accessible-node-labels", "gpu").set("root.a.accessible-node-labels.gpu.capacity", "100"));
    for (int i = 0; i < 150; i++) {
      cluster.node("node" + i, 1024, 1);
    }
    MockAM am = job("*", 1024, 0);
    List<ResourceRequest> asks = new ArrayList<>();
    for (int priority = 2; priority < 1900; priority++) {
      asks.add(am.createResourceReq("*", 1024, priority, 1, "gpu"));
    }
    asks.add(am.createResourceReq("*", 1024, 1900, 1));
    am.allocate(asks, Collections.emptyList());
    cluster.rm().drainEvents();
    assertEquals(1, found());
    assertTrue(search.complete());
  }

  /** Asks that the engine does not know are no proof that it places nothing. */
  @Test
  void keysBeyondTheLimitAreNotFound() throws Exception {
    start(ClusterFixture.cluster());
    MockAM am = job("*", 1024, 0);
    List<ResourceRequest> asks = new ArrayList<>();
    for (int id = 0; id <= Cap.REQUEST_KEYS.ofApplication; id++) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(5)).resourceName("*")
          .capability(Resource.newInstance(1024, 1)).numContainers(1).allocationRequestId(id)
          .relaxLocality(id == Cap.REQUEST_KEYS.ofApplication).build());
    }
    am.allocate(asks, Collections.emptyList());
    assertEquals(0, found());
    asks.forEach(ask -> ask.setNumContainers(ask.getAllocationRequestId() == 0 ? 0 : 1));
    am.allocate(asks, Collections.emptyList());
    assertEquals(1, found());
  }
}

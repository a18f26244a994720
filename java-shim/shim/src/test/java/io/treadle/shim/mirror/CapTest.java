// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Cap;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNodes;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeAddedSchedulerEvent;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** An engine receives a bounded part of one application, and the application shows that. */
class CapTest {
  private static final int KEYS = Cap.REQUEST_KEYS.ofApplication;
  private static final int MORE = 300;

  private Cluster cluster;
  private MockNM node;
  private RMApp app;
  private MockAM am;

  @BeforeEach
  void start() throws Exception {
    start(Cluster.settings(1 << 20));
  }

  private void start(MirrorSettings settings) throws Exception {
    cluster = new Cluster(Cluster.conf(), settings);
    node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
    app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue("a").withUser("mallory").withUnmanagedAM(false).build());
    am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
    cluster.tickAndCheck();
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  /** Asks with keys of the allocation request IDs {@code from} to {@code to - 1}. */
  private void ask(int from, int to, int count) throws Exception {
    ask(from, to, count, true);
  }

  private void ask(int from, int to, int count, boolean anywhere) throws Exception {
    asks(from, to, count, anywhere);
    settle();
  }

  private void asks(int from, int to, int count, boolean anywhere) throws Exception {
    List<ResourceRequest> asks = new ArrayList<>();
    for (int id = from; id < to; id++) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(7)).resourceName("*")
          .capability(Resource.newInstance(1024, 1)).numContainers(count).allocationRequestId(id)
          .relaxLocality(anywhere).build());
    }
    am.allocate(asks, Collections.emptyList());
  }

  private EngineModel.Application known() {
    return cluster.model.applications.get(0L);
  }

  private boolean isKnown(int id) {
    return known().requests.values().stream().anyMatch(row -> row.contains(" id=" + id + " "));
  }

  @Test
  void furtherRequestKeysWaitAndTheDiagnosticsShowIt() throws Exception {
    ask(0, KEYS, 2);
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
    ask(KEYS, KEYS + MORE, 2);
    assertEquals(KEYS, known().requests.size());
    assertTrue(isKnown(KEYS - 1));
    assertFalse(isKnown(KEYS));
    assertTrue(app.getDiagnostics().toString().contains("at most 2000 request keys"), app.getDiagnostics().toString());
    ask(0, MORE / 2, 0);
    assertEquals(KEYS, known().requests.size());
    assertTrue(isKnown(KEYS));
    ask(MORE / 2, MORE, 0);
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
  }

  @Test
  void keysThatComeFirstTakeThePlaceOfOthers() throws Exception {
    ask(MORE, KEYS + MORE, 2);
    ask(0, MORE, 2);
    assertEquals(KEYS, known().requests.size());
    assertTrue(isKnown(0));
    assertFalse(isKnown(KEYS));
  }

  /** Nothing but a placement makes room: no ask comes, and reviews are off. */
  @Test
  void aKeyThatIsServedMakesRoomForTheNext() throws Exception {
    ask(0, KEYS + MORE, 1);
    node.nodeHeartbeat(true);
    settle();
    int served = cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size() - 1;
    assertTrue(served > 0 && served < MORE, "" + served);
    assertEquals(KEYS, known().requests.size());
    assertFalse(isKnown(0));
    assertTrue(isKnown(KEYS + served - 1));
  }

  /** The stock scheduler may place it, as without the lease; it must not be one more than may be sent. */
  @Test
  void aPlacementForAFurtherKeySendsNothing() throws Exception {
    int further = KEYS;
    ask(MORE, further, 2, false);
    ask(further, further + 1, 2);
    assertTrue(isKnown(further));
    ask(0, MORE, 2, false);
    assertFalse(isKnown(further));
    node.nodeHeartbeat(true);
    settle();
    assertTrue(cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size() > 1);
    assertFalse(isKnown(further));
    assertEquals(KEYS, known().requests.size());
  }

  private int blacklist(int from, int to, boolean add) throws Exception {
    List<String> names = new ArrayList<>();
    for (int i = from; i < to; i++) {
      names.add("host-" + i);
    }
    am.allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        ResourceBlacklistRequest.newInstance(add ? names : Collections.emptyList(),
            add ? Collections.emptyList() : names)));
    return rows(cluster.tick(), Section.BLACKLIST);
  }

  private static int rows(List<byte[]> frames, Section section) {
    return frames.stream().mapToInt(frame -> new FrameReader(frame).table(section).rows()).sum();
  }

  @Test
  void ofALongBlacklistAPartIsSentAndStays() throws Exception {
    int names = Cap.BLACKLISTED_NAMES.ofApplication;
    hosts(names + 2);
    blacklist(0, names, true);
    settle();
    assertEquals(names, known().blacklist.size());
    assertEquals("", app.getDiagnostics().toString());
    assertEquals(0, blacklist(names, names + 2, true));
    assertTrue(app.getDiagnostics().toString().contains("at most 2000 blacklisted names"),
        app.getDiagnostics().toString());
    cluster.tick();
    assertEquals(2, blacklist(0, 1, false), "one that was sent has gone, another one comes");
    assertFalse(known().blacklist.contains("host-0"));
    assertTrue(known().blacklist.contains("host-1"));
    assertEquals(2, blacklist(1, 2, false));
    assertEquals(1, blacklist(2, 3, false), "a difference");
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
  }

  private void hosts(int count) {
    for (int i = 0; i < count; i++) {
      cluster.scheduler.handle(new NodeAddedSchedulerEvent(
          MockNodes.newNodeInfo(0, Resource.newInstance(1024, 1), i, "host-" + i, 1)));
    }
    cluster.tick();
  }

  /** To look at each name of the cluster costs more steps than a user has at a time. */
  @Test
  void onALargeClusterAPartOfALongBlacklistIsSentToo() throws Exception {
    int names = Cap.BLACKLISTED_NAMES.ofApplication;
    hosts(20_001);
    blacklist(0, names + 1, true);
    settle();
    assertEquals(names, known().blacklist.size());
  }

  /** A name that no node has means nothing to the engine, until one comes. */
  @Test
  void ofNamesThatNoNodeHasFewAreSent() throws Exception {
    List<ResourceRequest> asks = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      asks.add(ResourceRequest.newInstance(Priority.newInstance(7), "host-" + i, Resource.newInstance(1024, 1), 1));
    }
    asks.add(ResourceRequest.newInstance(Priority.newInstance(7), "*", Resource.newInstance(1024, 1), 100));
    am.allocate(asks, Collections.emptyList());
    assertEquals(0, blacklist(0, 100, true));
    settle();
    Map<String, String> sent = known().localities.values().iterator().next();
    assertEquals(4, sent.size());
    String other = "host-" + IntStream.range(0, 100).filter(i -> !sent.containsKey("host-" + i))
        .findFirst().getAsInt();
    cluster.rm.registerNode(other + ":1", 1024, 1);
    cluster.tick();
    assertTrue(known().localities.values().iterator().next().containsKey(other));
    assertEquals(Collections.singleton(other), known().blacklist);
  }

  @Test
  void whetherAllNamesOfRequestsAreSentIsKnown() throws Exception {
    cluster.close();
    MirrorSettings settings = Cluster.settings(1 << 20);
    settings.ofUser = 50;
    start(settings);
    assertTrue(cluster.mirror.isWhole(0));
    List<ResourceRequest> asks = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      asks.add(ResourceRequest.newInstance(Priority.newInstance(7), "host-" + i, Resource.newInstance(1024, 1), 1));
    }
    asks.add(ResourceRequest.newInstance(Priority.newInstance(7), "*", Resource.newInstance(1024, 1), 100));
    am.allocate(asks, Collections.emptyList());
    settle();
    assertFalse(cluster.mirror.isWhole(0));
    asks.forEach(ask -> ask.setNumContainers(0));
    am.allocate(asks, Collections.emptyList());
    settle();
    assertTrue(cluster.mirror.isWhole(0));
  }

  /** Two applications have what a user may have: the third waits, and gets what another one leaves. */
  @Test
  void theApplicationsOfAUserHaveOneBoundTogether() throws Exception {
    cluster.close();
    MirrorSettings settings = Cluster.settings(1 << 20);
    settings.ofUser = 3 * MORE;
    start(settings);
    List<MockAM> others = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      ask(0, 2 * MORE, 1, false);
      others.add(am);
      am = another();
      settle();
    }
    ask(0, MORE, 1, false);
    settle();
    assertEquals(2 * MORE, known().requests.size());
    assertEquals(MORE, cluster.model.applications.get(1L).requests.size());
    EngineModel.Application last = cluster.model.applications.get(2L);
    assertEquals(0, last.requests.size());
    assertTrue(cluster.rm.getRMContext().getRMApps().get(am.getApplicationAttemptId().getApplicationId())
        .getDiagnostics().toString().contains("10000 of all applications of a user"));
    cluster.rm.killApp(others.get(0).getApplicationAttemptId().getApplicationId());
    settle();
    am.allocate(Collections.singletonList(ResourceRequest.newInstance(Priority.newInstance(1), "*",
        Resource.newInstance(1024, 1), 1)), Collections.emptyList());
    settle();
    assertEquals(MORE + 1, last.requests.size());
  }

  @Test
  void aUserMayHaveFewerRequestKeysThanNames() {
    UserBudget budget = new UserBudget(Cap.OF_USER);
    budget.stands(Cap.REQUEST_KEYS, 9000);
    assertEquals(1000, budget.room(Cap.REQUEST_KEYS, 0));
    budget.stands(Cap.LOCALITIES, 11_000);
    assertEquals(9000, budget.room(Cap.LOCALITIES, 0));
    assertEquals(10_000, budget.room(Cap.LOCALITIES, 5000));
  }

  private MockAM another() throws Exception {
    return MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, cluster.rm).withQueue("a").withUser("mallory").withUnmanagedAM(false).build()),
        cluster.rm, node);
  }

  /** Looks at the requests of both go on at one time. */
  @Test
  void theApplicationsOfAUserHaveOneBoundWhileTheyAreLookedAt() throws Exception {
    cluster.close();
    MirrorSettings settings = Cluster.settings(1 << 20);
    settings.ofUser = 3 * MORE;
    start(settings);
    MockAM first = am;
    am = another();
    settle();
    for (MockAM each : new MockAM[] {am, first}) {
      am = each;
      asks(0, 2 * MORE, 1, true);
    }
    settle();
    int requests = known().requests.size();
    assertEquals(3 * MORE, requests + cluster.model.applications.get(1L).requests.size());
    assertTrue(requests > 0 && requests <= 2 * MORE, "" + requests);
  }

  /** Those of a user that have gone and keep their indices are bounded, too, and no look at requests takes them up. */
  @Test
  void keysThatHaveGoneAreBounded() throws Exception {
    cluster.close();
    MirrorSettings settings = Cluster.settings(1 << 20);
    settings.ofUser = 3 * MORE;
    start(settings);
    MockAM first = am;
    am = another();
    for (MockAM each : new MockAM[] {first, am}) {
      am = each;
      ask(0, 2 * MORE, 1);
      ask(0, 2 * MORE - 1, 0);
    }
    int kept = 0;
    for (int index = 0; index < 2; index++) {
      int application = index;
      kept += IntStream.range(0, cluster.directory().requestKeys(index))
          .filter(key -> cluster.directory().requestKey(application, key) != null).count();
      assertEquals(1, cluster.directory().askingKeys(index).length);
    }
    assertEquals(3 * MORE + 2, kept, "with those that ask");
    ask(0, MORE, 1);
    assertEquals(MORE + 1, cluster.model.applications.get(1L).requests.size());
    ask(0, MORE, 0);
    assertEquals(1, cluster.directory().askingKeys(1).length);
  }

  /** What is not marked is not read, whatever else changes. */
  @Test
  void aBlacklistIsReadWhenItChanges() throws Exception {
    ask(0, 1, 1);
    blacklist(0, 10, true);
    cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId())
        .updateBlacklist(Collections.singletonList("n1"), Collections.emptyList());
    ask(0, 1, 2);
    assertEquals(Collections.emptySet(), known().blacklist);
    blacklist(10, 11, true);
    assertEquals(Collections.singleton("n1"), known().blacklist);
  }

  /** Names that no node has cost their user what it costs to look at them. */
  @Test
  void blacklistsOfUnknownNamesComeInTurns() throws Exception {
    cluster.rm.registerNode("n2:1234", 64 * 1024, 64);
    List<MockAM> all = new ArrayList<>();
    for (int i = 0; i < 12; i++) {
      all.add(am);
      blacklist(0, KEYS - 1, true);
      settle();
      am = another();
      cluster.tick();
    }
    for (MockAM each : all) {
      each.allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
          ResourceBlacklistRequest.newInstance(Collections.singletonList("n1"), Collections.emptyList())));
    }
    int first = rows(cluster.tick(), Section.BLACKLIST);
    assertTrue(first > 0 && first < 12, "" + first);
    settle();
    cluster.check();
    assertEquals(12, cluster.model.applications.values().stream().filter(app -> app.blacklist.contains("n1")).count());
  }

  private void settle() {
    for (int i = 0; i < 40; i++) {
      cluster.tick();
    }
  }

  /** What one user changes comes in time; what another one asks for does not wait for that. */
  @Test
  void whoChangesMuchWaits() throws Exception {
    MockAM mallory = am;
    MockAM ann = MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, cluster.rm).withQueue("a").withUser("ann").withUnmanagedAM(false).build()),
        cluster.rm, node);
    cluster.tick();
    int most = 0;
    for (int round = 0; round < 20; round++) {
      List<ResourceRequest> asks = new ArrayList<>();
      for (int id = 0; id < KEYS; id++) {
        asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(7)).resourceName("*")
            .capability(Resource.newInstance(1024, 1)).numContainers(1 + round).allocationRequestId(id).build());
      }
      mallory.allocate(asks, Collections.emptyList());
      ann.allocate(ann.createReq(new String[] {"n1"}, 1024, 4, 1 + round, -1), new ArrayList<>());
      most = Math.max(most, rows(cluster.tick(), Section.REQUESTS));
      assertTrue(cluster.model.applications.get(1L).requests.toString().contains(" count=" + (1 + round) + " "),
          cluster.model.applications.get(1L).requests.toString());
    }
    assertTrue(most < 3000, "" + most);
    int sent = 0;
    for (int i = 0; i < 20; i++) {
      sent += rows(cluster.tick(), Section.REQUESTS);
    }
    cluster.check();
    assertTrue(sent > 0 && sent <= KEYS, "" + sent);
  }

  /** Two that change much in each frame use up what their user may change. */
  @Test
  void theApplicationsOfAUserTakeTurns() throws Exception {
    cluster.rm.registerNode("n2:1234", 64 * 1024, 64);
    MockAM[] busy = {am, another()};
    cluster.tick();
    MockAM last = another();
    cluster.tick();
    for (int round = 0; round < 12; round++) {
      for (MockAM each : busy) {
        am = each;
        asks(0, KEYS / 4, 1 + round, true);
      }
      if (round == 2) {
        am = last;
        asks(0, 1, 1, true);
      }
      cluster.tick();
    }
    assertEquals(1, cluster.model.applications.get(2L).requests.size());
  }

  /** What the engine knows of a key, and a proposal that is under way, go by its index. */
  @Test
  void aKeyThatComesAgainHasItsIndex() throws Exception {
    ask(0, 2, 1);
    int keys = cluster.directory().requestKeys(0);
    SchedulerRequestKey second = cluster.directory().requestKey(0, keys - 1);
    for (int round = 0; round < 3; round++) {
      ask(0, 2, 0);
      assertEquals(0, known().requests.size());
      ask(1, 2, 1);
      assertEquals(keys, cluster.directory().requestKeys(0));
      assertEquals(second, cluster.directory().requestKey(0, keys - 1));
    }
  }

  /** Keys that come and go use indices again, so that they cost no snapshot. */
  @Test
  void keysThatComeAndGoForceNoSnapshot() throws Exception {
    for (int round = 0; round < 12; round++) {
      ask(round * KEYS, round * KEYS + KEYS, 1);
      settle();
      assertEquals(KEYS, known().requests.size());
      ask(round * KEYS, round * KEYS + KEYS, 0);
      settle();
      assertEquals(0, known().requests.size());
    }
    assertTrue(cluster.directory().requestKeys(0) < 4 * KEYS, "" + cluster.directory().requestKeys(0));
    assertNull(cluster.directory().requestKey(0, AskSection.KEPT_INDICES), "it has gone");
    assertEquals(1, cluster.model.snapshots);
  }
}

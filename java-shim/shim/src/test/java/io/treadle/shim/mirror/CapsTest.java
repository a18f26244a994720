package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Caps;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** An engine receives a bounded part of one application, and the application shows that. */
class CapsTest {
  private static final int MORE = 300;

  private Cluster cluster;
  private MockNM node;
  private RMApp app;
  private MockAM am;

  @BeforeEach
  void start() throws Exception {
    cluster = new Cluster(Cluster.conf(), Cluster.settings(1 << 20));
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
    List<ResourceRequest> asks = new ArrayList<>();
    for (int id = from; id < to; id++) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(7)).resourceName("*")
          .capability(Resource.newInstance(1024, 1)).numContainers(count).allocationRequestId(id)
          .relaxLocality(anywhere).build());
    }
    am.allocate(asks, Collections.emptyList());
    cluster.tick();
  }

  private EngineModel.Application known() {
    return cluster.model.applications.get(0L);
  }

  private boolean isKnown(int id) {
    return known().requests.values().stream().anyMatch(row -> row.contains(" id=" + id + " "));
  }

  @Test
  void furtherRequestKeysWaitAndTheDiagnosticsShowIt() throws Exception {
    ask(0, Caps.REQUEST_KEYS, 2);
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
    ask(Caps.REQUEST_KEYS, Caps.REQUEST_KEYS + MORE, 2);
    assertEquals(Caps.REQUEST_KEYS, known().requests.size());
    assertTrue(isKnown(Caps.REQUEST_KEYS - 1));
    assertFalse(isKnown(Caps.REQUEST_KEYS));
    assertTrue(app.getDiagnostics().toString().contains("at most 2000 request keys"), app.getDiagnostics().toString());
    ask(0, MORE / 2, 0);
    assertEquals(Caps.REQUEST_KEYS, known().requests.size());
    assertTrue(isKnown(Caps.REQUEST_KEYS));
    ask(MORE / 2, MORE, 0);
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
  }

  @Test
  void keysThatComeFirstTakeThePlaceOfOthers() throws Exception {
    ask(MORE, Caps.REQUEST_KEYS + MORE, 2);
    ask(0, MORE, 2);
    assertEquals(Caps.REQUEST_KEYS, known().requests.size());
    assertTrue(isKnown(0));
    assertFalse(isKnown(Caps.REQUEST_KEYS));
  }

  /** Nothing but a placement makes room: no ask comes, and reviews are off. */
  @Test
  void aKeyThatIsServedMakesRoomForTheNext() throws Exception {
    ask(0, Caps.REQUEST_KEYS + MORE, 1);
    node.nodeHeartbeat(true);
    cluster.tick();
    int served = cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size() - 1;
    assertTrue(served > 0 && served < MORE, "" + served);
    assertEquals(Caps.REQUEST_KEYS, known().requests.size());
    assertFalse(isKnown(0));
    assertTrue(isKnown(Caps.REQUEST_KEYS + served - 1));
  }

  /** The stock scheduler may place it, as in a round of the idle guard; it must not be one more than may be sent. */
  @Test
  void aPlacementForAFurtherKeySendsNothing() throws Exception {
    int further = Caps.REQUEST_KEYS;
    ask(MORE, further, 2, false);
    ask(further, further + 1, 2);
    assertTrue(isKnown(further));
    ask(0, MORE, 2, false);
    assertFalse(isKnown(further));
    node.nodeHeartbeat(true);
    cluster.tick();
    assertTrue(cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size() > 1);
    assertFalse(isKnown(further));
    assertEquals(Caps.REQUEST_KEYS, known().requests.size());
  }

  private int blacklist(int from, int to, boolean add) throws Exception {
    List<String> names = new ArrayList<>();
    for (int i = from; i < to; i++) {
      names.add("host-" + i);
    }
    am.allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        ResourceBlacklistRequest.newInstance(add ? names : Collections.emptyList(),
            add ? Collections.emptyList() : names)));
    int rows = 0;
    for (byte[] frame : cluster.tick()) {
      rows += new FrameReader(frame).table(Section.BLACKLIST).rows();
    }
    return rows;
  }

  @Test
  void ofALongBlacklistAPartIsSentAndStays() throws Exception {
    assertEquals(Caps.BLACKLISTED_NAMES, blacklist(0, Caps.BLACKLISTED_NAMES, true));
    assertEquals("", app.getDiagnostics().toString());
    assertEquals(0, blacklist(Caps.BLACKLISTED_NAMES, Caps.BLACKLISTED_NAMES + MORE, true));
    assertTrue(app.getDiagnostics().toString().contains("at most 2000 blacklisted names"),
        app.getDiagnostics().toString());
    assertEquals(Caps.BLACKLISTED_NAMES, blacklist(0, 1, false), "one that was sent has gone");
    assertFalse(known().blacklist.contains("host-0"));
    assertTrue(known().blacklist.contains("host-1"));
    blacklist(1, MORE, false);
    cluster.tickAndCheck();
    assertEquals("", app.getDiagnostics().toString());
  }
}

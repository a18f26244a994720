// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.treadle.plans.AttemptKey;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.recovery.MemoryRMStateStore;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.security.AMRMTokenSecretManager;
import org.apache.hadoop.yarn.server.resourcemanager.security.MasterKeys;
import org.junit.jupiter.api.Test;

/** A ResourceManager that rolls its master key over, or starts again: attempt and engine have the same keys. */
class KeyRollOverTest {
  private static final byte[] MESSAGE = {1, 2, 3};

  /** An attempt as it runs in its own JVM, with the tokens that it was given. */
  private static final class Attempt {
    final MockAM am;
    final UserGroupInformation user = UserGroupInformation.createRemoteUser("ann");

    Attempt(MockAM am, Token<AMRMTokenIdentifier> first) {
      this.am = am;
      take(first.getIdentifier(), first.getPassword());
    }

    private void take(byte[] identifier, byte[] password) {
      user.addToken(new Text("rm"), new Token<>(identifier, password, AMRMTokenIdentifier.KIND_NAME, new Text("rm")));
    }

    /** A heartbeat; takes a renewed token, as YARN's client does. Returns whether there was one. */
    boolean heartbeat() throws Exception {
      AllocateResponse response = am.allocate(new ArrayList<>(), new ArrayList<>());
      org.apache.hadoop.yarn.api.records.Token renewed = response.getAMRMToken();
      if (renewed != null) {
        take(renewed.getIdentifier().array(), renewed.getPassword().array());
      }
      return renewed != null;
    }

    AttemptKey key() throws IOException {
      List<AttemptKey> keys = AttemptKey.of(am.getApplicationAttemptId()::equals, Collections.singletonList(user));
      assertEquals(1, keys.size());
      return keys.get(0);
    }
  }

  /** The only key in some frames; null if there is none. */
  private static FrameReader.Table keys(List<byte[]> frames) {
    FrameReader.Table found = null;
    for (byte[] frame : frames) {
      FrameReader.Table table = new FrameReader(frame).table(Section.KEYS);
      if (table.rows() > 0) {
        assertNull(found);
        assertEquals(1, table.rows());
        found = table;
      }
    }
    return found;
  }

  private static void check(Attempt attempt, FrameReader.Table keys) throws Exception {
    assertNotNull(keys);
    assertEquals(attempt.key().number(), keys.at(0, "number"));
    ByteBuffer key = ByteBuffer.allocate(32).order(ByteOrder.LITTLE_ENDIAN);
    for (int word = 0; word < 4; word++) {
      key.putLong(keys.at(0, "word" + word));
    }
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key.array(), "HmacSHA256"));
    assertArrayEquals(mac.doFinal(MESSAGE), attempt.key().mac(MESSAGE));
  }

  private static RMApp submit(MockRM rm) throws Exception {
    return MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, rm).withQueue("a")
        .withAppType("tez").withUnmanagedAM(false).build());
  }

  private static Token<AMRMTokenIdentifier> token(RMApp app) {
    return app.getCurrentAppAttempt().getAMRMToken();
  }

  private static MirrorSettings reviewed() {
    return new MirrorSettings(1 << 20, Cluster.NEVER_MS, Cluster.NEVER_MS, 0);
  }

  @Test
  void attemptAndEngineHaveTheSameKeyAfterEachRollOver() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), reviewed())) {
      cluster.mirror.keysFor(Collections.singleton("TEZ"));
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      RMApp app = submit(cluster.rm);
      MockAM am = MockRM.launchAndRegisterAM(app, cluster.rm, node);
      Attempt attempt = new Attempt(am, token(app));
      check(attempt, keys(cluster.tick()));
      assertNull(keys(cluster.tick()), "sent once");

      AMRMTokenSecretManager secrets = cluster.rm.getRMContext().getAMRMTokenSecretManager();
      for (int round = 0; round < 3; round++) {
        int before = attempt.key().number();
        MasterKeys.roll(secrets);
        assertNull(keys(cluster.tick()), "until the attempt has been given another token its key is the one before");
        assertEquals(true, attempt.heartbeat());
        assertEquals(before + 1, attempt.key().number());
        check(attempt, keys(cluster.tick()));
        secrets.activateNextMasterKey();
        assertEquals(false, attempt.heartbeat());
        assertNull(keys(cluster.tick()));
      }
    }
  }

  /** As the one that takes over in a failover. */
  @Test
  void aResourceManagerThatTakesOverTellsTheKeyThatTheAttemptHas() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.setBoolean(YarnConfiguration.RECOVERY_ENABLED, true);
    conf.setBoolean(YarnConfiguration.RM_WORK_PRESERVING_RECOVERY_ENABLED, true);
    conf.set(YarnConfiguration.RM_STORE, MemoryRMStateStore.class.getName());
    conf.setClass(YarnConfiguration.RM_SCHEDULER, TappedScheduler.class, ResourceScheduler.class);
    try (MockRM first = new MockRM(conf)) {
      first.start();
      MockNM node = first.registerNode("n1:1234", 16 * 1024, 16);
      RMApp app = submit(first);
      MockAM am = MockRM.launchAndRegisterAM(app, first, node);
      Attempt attempt = new Attempt(am, token(app));
      MasterKeys.roll(first.getRMContext().getAMRMTokenSecretManager());
      assertEquals(true, attempt.heartbeat());
      first.getRMContext().getAMRMTokenSecretManager().activateNextMasterKey();
      try (MockRM second = new MockRM(conf, first.getRMStateStore())) {
        second.start();
        TappedScheduler scheduler = (TappedScheduler) second.getResourceScheduler();
        Mirror mirror = new Mirror(scheduler, scheduler.journal, reviewed(), new HashMap<>());
        mirror.start(78);
        mirror.keysFor(Collections.singleton("TEZ"));
        node.setResourceTrackerService(second.getResourceTrackerService());
        node.registerNode();
        second.drainEvents();
        check(attempt, keys(mirror.frames(1_700_000_000_000L, 1, new FrameOptions(false, 1, 100, Cluster.SETTINGS))));
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.link.ScriptedEngine;
import java.io.IOException;
import java.util.Collections;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.mockito.Mockito;

class TreadleSchedulerTest {
  private static Map<String, Long> numbers(MockRM rm) {
    return TestRms.scheduler(rm).shim().metrics().numbers();
  }

  @Test
  void modeOffIsTheStockScheduler() throws Exception {
    try (MockRM rm = new MockRM(TestRms.configuration("off"))) {
      rm.start();
      MockNM node = rm.registerNode("h1:1234", 8192);
      RMApp app = TestRms.submit(rm, 1024);
      MockAM am = TestRms.launch(rm, app, node);
      am.allocateAndWaitForContainers("*", 3, 1024, node);
      assertEquals(4096, TestRms.scheduler(rm).getNode(node.getNodeId()).getAllocatedResource().getMemorySize());
      // what a heartbeat placed is counted a moment after an AM can have it
      TestRms.await(rm, "PlacedByCapacityScheduler", 4);
      String placements = "{\"" + app.getApplicationId() + "\":{\"treadle\":0,\"native\":4}}";
      Await.until("they are counted by application",
          () -> TestRms.scheduler(rm).shim().metrics().getPlacements().equals(placements));
      assertEquals(0L, numbers(rm).get("CaughtExceptions"));
      assertEquals(0L, numbers(rm).get("Frames"));
    }
  }

  @Test
  void aBadSettingAtTheStartMeansOffAndDoesNotStopTheRm() throws Exception {
    YarnConfiguration conf = TestRms.configuration("enfroce");
    try (MockRM rm = new MockRM(conf)) {
      rm.start();
      assertEquals("off", TestRms.text(rm, "Mode"));
      assertTrue(TestRms.text(rm, "LastError").contains("'enfroce'"), TestRms.text(rm, "LastError"));
      MockNM node = rm.registerNode("h1:1234", 8192);
      TestRms.launch(rm, TestRms.submit(rm, 1024), node);
      conf.set(ShimConfig.MODE, "off");
      TestRms.refresh(rm, conf);
      assertEquals("", TestRms.scheduler(rm).shim().metrics().text("LastError"));
    }
  }

  @Test
  void aBadSettingIsRefusedByAStartedSchedulerBeforeAnythingChanges() throws Exception {
    YarnConfiguration conf = TestRms.configuration("off");
    try (MockRM rm = new MockRM(conf)) {
      rm.start();
      YarnConfiguration changed = new YarnConfiguration(conf);
      changed.set("yarn.scheduler.capacity.root.default.maximum-applications", "17");
      changed.set(ShimConfig.LEASE_MS, "2 seconds");
      IOException thrown = assertThrows(IOException.class, () -> TestRms.refresh(rm, changed));
      assertTrue(thrown.getMessage().contains(ShimConfig.LEASE_MS), thrown.getMessage());
      assertTrue(thrown.getMessage().contains("'2 seconds'"), thrown.getMessage());
      LeafQueue queue = (LeafQueue) TestRms.scheduler(rm).getQueue("default");
      assertTrue(queue.getMaxApplications() != 17, "the queues must not have been refreshed");
      changed.set(ShimConfig.LEASE_MS, "3000");
      TestRms.refresh(rm, changed);
      assertEquals(17, ((LeafQueue) TestRms.scheduler(rm).getQueue("default")).getMaxApplications());
      assertEquals("", TestRms.scheduler(rm).shim().metrics().text("LastError"));
    }
  }

  @Test
  void aBadSettingDoesNotDisturbATransitionToActive() throws Exception {
    YarnConfiguration conf = TestRms.configuration("off");
    try (MockRM rm = new MockRM(conf)) {
      // initialised, not started: the state in which AdminService refreshes everything before a transition
      YarnConfiguration changed = new YarnConfiguration(conf);
      changed.set(ShimConfig.TICK_MS, "often");
      TestRms.refresh(rm, changed);
      String error = TestRms.scheduler(rm).shim().metrics().text("LastError");
      assertTrue(error.contains("'often'"), error);
      rm.start();
      assertEquals("off", TestRms.scheduler(rm).shim().metrics().text("Mode"));
    }
  }

  @Test
  void aConstructedOneStartsNothingAndPassesEverythingToStock() throws Exception {
    // threads of earlier tests may end meanwhile; none must come
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    for (int i = 0; i < 100; i++) {
      assertNull(new TreadleScheduler().shim());
    }
    Set<Thread> after = new HashSet<>(Thread.getAllStackTraces().keySet());
    after.removeAll(before);
    after.removeIf(thread -> !thread.getName().toLowerCase(Locale.ROOT).contains("treadle"));
    assertEquals(Collections.emptySet(), after);
  }

  private static void awaitLease(MockRM rm) throws Exception {
    TestRms.await(rm, "LeaseHeld", 1);
  }

  /** The threads of links that live now and did not before. */
  private static Set<Thread> links(Set<Thread> before) {
    Set<Thread> threads = new HashSet<>(Thread.getAllStackTraces().keySet());
    threads.removeAll(before);
    threads.removeIf(thread -> !thread.getName().startsWith("treadle-link-"));
    return threads;
  }

  /** Hadoop's own tests wrap schedulers so; the wrapper and the link's thread then work on the same state. */
  @Test
  void survivesASpy() throws Exception {
    ScriptedEngine.reset(ScriptedEngine.Frame::answer);
    try (MockRM rm = new MockRM(TestRms.withEngine("enforce"))) {
      rm.start();
      MockNM node = rm.registerNode("h1:1234", 8192);
      awaitLease(rm);
      RMApp app = TestRms.submit(rm, 1024);
      TreadleScheduler spy = Mockito.spy(TestRms.scheduler(rm));
      assertEquals(TestRms.scheduler(rm).shim(), spy.shim());
      assertDoesNotThrow(() -> spy.nodeUpdate(rm.getRMContext().getRMNodes().get(node.getNodeId())));
      assertEquals(0, spy.getNode(node.getNodeId()).getNumContainers(), "the gate is closed for the spy, too");
      ScriptedEngine.script(ScriptedEngine::proposeAll);
      TestRms.launchByEngine(rm, app);
      assertEquals(1, spy.getNode(node.getNodeId()).getNumContainers());
      assertEquals(0L, numbers(rm).get("PlacedByCapacityScheduler"));
      assertEquals(0L, numbers(rm).get("CaughtExceptions"));
    }
    assertEquals(0, ScriptedEngine.open());
  }

  @Test
  void manyLiveInOneJvm() throws Exception {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    for (int i = 0; i < 5; i++) {
      ScriptedEngine.reset(ScriptedEngine::proposeAll);
      try (MockRM first = new MockRM(TestRms.withEngine("enforce"));
          MockRM second = new MockRM(TestRms.withEngine("enforce"))) {
        first.start();
        second.start();
        second.registerNode("h1:1234", 8192);
        awaitLease(first);
        awaitLease(second);
        assertEquals(2, links(before).size());
        TestRms.launchByEngine(second, 1024);
        Await.until("the container is counted", () -> numbers(second).get("Committed") == 1L);
        assertEquals(0L, numbers(second).get("PlacedByCapacityScheduler"));
        assertEquals(0L, numbers(first).get("Committed"));
        second.stop();
        assertTrue(numbers(first).get("LeaseHeld") == 1L, "one that stops takes nothing from the other");
      }
      assertEquals(0, ScriptedEngine.open());
      assertEquals(Collections.emptySet(), links(before));
    }
  }

  /** A scheduler that has stopped leaves no thread behind, whatever its engine was doing: each failover makes one. */
  @ParameterizedTest
  @ValueSource(strings = {"enforce", "observe_only", "enforce hangs", "enforce fails", "off"})
  void theLinksThreadEndsWithTheScheduler(String how) throws Exception {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    CountDownLatch hanging = new CountDownLatch(1);
    ScriptedEngine.reset(frame -> {
      if (how.endsWith("fails")) {
        throw new IOException("gone");
      }
      if (how.endsWith("hangs")) {
        hanging.countDown();
        return ScriptedEngine.hang();
      }
      return frame.answer();
    });
    try (MockRM rm = new MockRM(TestRms.withEngine(how.split(" ")[0]))) {
      rm.start();
      if (how.endsWith("hangs")) {
        hanging.await();
      } else if (how.endsWith("fails")) {
        Await.until("a conversation failed", () -> numbers(rm).get("LinkFailures") > 0L);
      } else if (!how.equals("off")) {
        awaitLease(rm);
      }
      assertEquals(how.equals("off") ? 0 : 1, links(before).size());
      rm.stop();
      assertEquals(Collections.emptySet(), links(before));
    }
    assertEquals(0, ScriptedEngine.open());
  }
}

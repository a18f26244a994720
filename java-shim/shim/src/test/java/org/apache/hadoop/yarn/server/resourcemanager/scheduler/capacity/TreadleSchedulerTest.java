package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.config.ShimConfig;
import java.io.IOException;
import java.util.Collections;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.Test;
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
      assertEquals(4L, numbers(rm).get("PlacedNatively"));
      assertEquals(0L, numbers(rm).get("Escapes"));
      assertEquals(0L, numbers(rm).get("Frames"));
      assertEquals("{\"" + app.getApplicationId() + "\":{\"treadle\":0,\"native\":4}}",
          TestRms.scheduler(rm).shim().metrics().placements().getPlacements());
    }
  }

  @Test
  void aBadSettingAtTheStartMeansOffAndDoesNotStopTheRm() throws Exception {
    YarnConfiguration conf = TestRms.configuration("enfroce");
    try (MockRM rm = new MockRM(conf)) {
      rm.start();
      Map<String, String> texts = TestRms.scheduler(rm).shim().metrics().texts();
      assertEquals("off", texts.get("Mode"));
      assertTrue(texts.get("LastError").contains("'enfroce'"), texts.get("LastError"));
      MockNM node = rm.registerNode("h1:1234", 8192);
      TestRms.launch(rm, TestRms.submit(rm, 1024), node);
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
      assertEquals("", TestRms.scheduler(rm).shim().metrics().texts().get("LastError"));
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
      String error = TestRms.scheduler(rm).shim().metrics().texts().get("LastError");
      assertTrue(error.contains("'often'"), error);
      rm.start();
      assertEquals("off", TestRms.scheduler(rm).shim().metrics().texts().get("Mode"));
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

  @Test
  void survivesASpy() throws Exception {
    YarnConfiguration conf = TestRms.configuration("off");
    try (MockRM rm = new MockRM(conf)) {
      rm.start();
      MockNM node = rm.registerNode("h1:1234", 8192);
      rm.drainEvents();
      TreadleScheduler spy = Mockito.spy(TestRms.scheduler(rm));
      assertDoesNotThrow(() -> spy.nodeUpdate(rm.getRMContext().getRMNodes().get(node.getNodeId())));
      assertEquals(TestRms.scheduler(rm).shim(), spy.shim());
      assertEquals(0L, numbers(rm).get("Escapes"));
    }
  }

  @Test
  void manyLiveInOneJvm() throws Exception {
    for (int i = 0; i < 5; i++) {
      try (MockRM first = new MockRM(TestRms.configuration("off"));
          MockRM second = new MockRM(TestRms.configuration("off"))) {
        first.start();
        second.start();
        MockNM node = second.registerNode("h1:1234", 8192);
        TestRms.launch(second, TestRms.submit(second, 1024), node);
        assertEquals(1L, numbers(second).get("PlacedNatively"));
        assertEquals(0L, numbers(first).get("PlacedNatively"));
      }
    }
  }
}

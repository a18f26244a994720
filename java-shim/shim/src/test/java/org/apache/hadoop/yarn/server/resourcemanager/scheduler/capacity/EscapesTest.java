// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Escapes;
import io.treadle.shim.Shim;
import java.lang.reflect.Field;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.mockito.Mockito;

/**
 * A shim that throws wherever it is called: the RM goes on as the stock one, from an application's submission to its
 * end.
 */
class EscapesTest {
  private static Object field(TreadleScheduler scheduler, String name,
      Object value) throws ReflectiveOperationException {
    Field field = TreadleScheduler.class.getDeclaredField(name);
    field.setAccessible(true);
    if (value != null) {
      field.set(scheduler, value);
    }
    return field.get(scheduler);
  }

  private static Throwable fault(String kind) {
    switch (kind) {
      case "exception":
        return new IllegalStateException("on purpose");
      case "assertion":
        return new AssertionError("on purpose");
      case "memory":
        return new OutOfMemoryError("on purpose");
      default:
        return new NoSuchMethodError("on purpose");
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"exception", "assertion", "memory", "linkage"})
  void nothingEscapesAnOverride(String kind) throws Exception {
    YarnConfiguration conf = TestRms.configuration("off");
    Escapes escapes;
    try (MockRM rm = new MockRM(conf)) {
      TreadleScheduler scheduler = TestRms.scheduler(rm);
      Shim faulty = Mockito.mock(Shim.class, invocation -> {
        throw fault(kind);
      });
      field(scheduler, "shim", faulty);
      escapes = (Escapes) field(scheduler, "escapes", null);
      rm.start();
      MockNM node = rm.registerNode("h1:1234", 8192);
      RMApp app = TestRms.submit(rm, 1024);
      MockAM am = TestRms.launch(rm, app, node);
      am.allocateAndWaitForContainers("*", 2, 1024, node);
      long before = escapes.count();
      TestRms.refresh(rm, conf);
      assertTrue(escapes.count() > before);
      MockRM.finishAMAndVerifyAppState(app, rm, node, am);
      assertEquals(RMAppState.FINISHED, app.getState());
      assertEquals(0, scheduler.getRootQueue().getQueueResourceUsage().getUsed().getMemorySize());
    }
    assertTrue(escapes.count() > 10, "faults were caught: " + escapes.count());
  }
}

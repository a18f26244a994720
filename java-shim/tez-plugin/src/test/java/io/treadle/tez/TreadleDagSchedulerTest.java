// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.mockito.Mockito.when;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.DAGScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever goes wrong around the named class, a DAG's tasks go on in Tez's natural order, each once. */
@Timeout(60)
class TreadleDagSchedulerTest {
  private final FakeDag fake = FakeDag.diamond();

  /** Loads the plug-in anew, without one of its classes or with one that is damaged. */
  private static final class Damaged extends ClassLoader {
    private final String name;
    private final boolean missing;

    Damaged(String name, boolean missing) {
      super(TreadleDagSchedulerTest.class.getClassLoader());
      this.name = "io.treadle." + name;
      this.missing = missing;
    }

    @Override
    protected Class<?> loadClass(String wanted, boolean resolve) throws ClassNotFoundException {
      if (!wanted.startsWith("io.treadle.")) {
        return super.loadClass(wanted, resolve);
      }
      Class<?> known = findLoadedClass(wanted);
      if (known != null) {
        return known;
      }
      boolean damaged = wanted.equals(name);
      if (damaged && missing) {
        throw new ClassNotFoundException(wanted);
      }
      byte[] bytes = bytes(wanted);
      if (damaged) {
        // The class file's major version: of a Java that is not there yet.
        bytes[6] = 1;
      }
      return defineClass(wanted, bytes, 0, bytes.length);
    }

    private static byte[] bytes(String wanted) throws ClassNotFoundException {
      String file = wanted.replace('.', '/') + ".class";
      try (InputStream in = TreadleDagSchedulerTest.class.getClassLoader().getResourceAsStream(file)) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] buffer = new byte[4096];
        for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
          out.write(buffer, 0, count);
        }
        return out.toByteArray();
      } catch (IOException problem) {
        throw new ClassNotFoundException(wanted, problem);
      }
    }
  }

  private DAGScheduler scheduler(ClassLoader loader) throws Exception {
    fake.configuration.set(PlanSettings.ADDRESSES, "127.0.0.1:1");
    fake.configuration.set(PlanSettings.WAIT_MS, "1");
    Class<?> named = Class.forName("io.treadle.tez.TreadleDagScheduler", true, loader);
    Constructor<?> constructor = named.getConstructor(DAG.class, EventHandler.class);
    return (DAGScheduler) constructor.newInstance(fake.dag, fake);
  }

  private void assertNaturalOrder(DAGScheduler scheduler) throws Exception {
    scheduler.scheduleTask(fake.schedule(0, 0));
    scheduler.scheduleTask(fake.schedule(1, 0));
    scheduler.taskCompleted(fake.completed(1, 0));
    scheduler.scheduleTask(fake.schedule(2, 0));
    // Tasks that wait for a plan go on by a clock: what comes when no plan is hoped for any more may overtake them.
    List<String> sent = new ArrayList<>(fake.awaitSent(3));
    Collections.sort(sent);
    assertEquals(Arrays.asList("0.0 12-10", "1.0 15-13", "2.0 30-28"), sent);
  }

  @ParameterizedTest
  @ValueSource(strings = {"tez.PlannedScheduler", "tez.PlanSettings", "tez.DagDescription", "tez.DagAgent",
      "tez.Completion", "plans.Vertices", "plans.VertexOrder", "plans.PlanListener", "plans.RemotePlanListener",
      "plans.ListenerAddresses",
      "plans.AttemptKey", "plans.Messages", "plans.Sealing", "plans.PlanListener$Reply", "plans.PlanListener$Answer",
      "plans.PlanListener$Subject"})
  void aClassThatIsMissingOrOfAnotherJavaMeansNaturalOrder(String name) throws Exception {
    for (boolean missing : new boolean[] {true, false}) {
      Damaged loader = new Damaged(name, missing);
      TreadleDagSchedulerTest each = new TreadleDagSchedulerTest();
      each.assertNaturalOrder(each.scheduler(loader));
      assertNotSame(TreadleDagScheduler.class, loader.loadClass("io.treadle.tez.TreadleDagScheduler"));
    }
  }

  @Test
  void withoutAnAddressThereIsNaturalOrder() throws Exception {
    DAGScheduler scheduler = new TreadleDagScheduler(fake.dag, fake);
    assertNaturalOrder(scheduler);
  }

  @Test
  void whereNobodyListensThereIsNaturalOrder() throws Exception {
    assertNaturalOrder(scheduler(getClass().getClassLoader()));
  }

  @Test
  void aDagThatCannotBeReadMeansNaturalOrder() throws Exception {
    DAGScheduler scheduler = scheduler(getClass().getClassLoader());
    when(fake.dag.getName()).thenThrow(new IllegalStateException("on purpose"));
    assertNaturalOrder(scheduler);
  }

  @Test
  void aLimitOfTasksAtATimeHolds() throws Exception {
    DAGScheduler scheduler = scheduler(getClass().getClassLoader());
    scheduler.addVertexConcurrencyLimit(fake.dag.getVertices().keySet().iterator().next(), 1);
    scheduler.scheduleTask(fake.schedule(0, 0));
    scheduler.scheduleTask(fake.schedule(0, 1));
    assertEquals(Collections.singletonList("0.0 12-10"), fake.awaitSent(1));
    scheduler.taskCompleted(fake.completed(0, 0));
    assertEquals(Arrays.asList("0.0 12-10", "0.1 12-10"), fake.awaitSent(2));
  }
}

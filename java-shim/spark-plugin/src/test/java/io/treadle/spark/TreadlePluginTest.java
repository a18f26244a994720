// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.api.plugin.SparkPlugin;
import org.junit.jupiter.api.Test;

class TreadlePluginTest {
  /** Loads our classes anew, without those that the plug-in's own is not. */
  private static final class Half extends ClassLoader {
    Half() {
      super(TreadlePluginTest.class.getClassLoader());
    }

    @Override
    protected Class<?> loadClass(String wanted, boolean resolve) throws ClassNotFoundException {
      if (!wanted.startsWith("io.treadle.")) {
        return super.loadClass(wanted, resolve);
      }
      if (!wanted.equals(TreadlePlugin.class.getName())) {
        throw new NoClassDefFoundError(wanted);
      }
      String file = wanted.replace('.', '/') + ".class";
      try (InputStream in = TreadlePluginTest.class.getClassLoader().getResourceAsStream(file)) {
        byte[] bytes = new byte[1 << 16];
        int count = 0;
        for (int more = in.read(bytes); more > 0; more = in.read(bytes, count, bytes.length - count)) {
          count += more;
        }
        return defineClass(wanted, bytes, 0, count);
      } catch (IOException problem) {
        throw new ClassNotFoundException(wanted, problem);
      }
    }
  }

  private static int heard(String... settings) {
    Map<String, String> conf = new HashMap<>();
    for (int i = 0; i < settings.length; i += 2) {
      conf.put(settings[i], settings[i + 1]);
    }
    AtomicInteger registered = new AtomicInteger();
    StageReporting driver = (StageReporting) new TreadlePlugin().driverPlugin();
    driver.begin(conf::getOrDefault, listener -> registered.incrementAndGet());
    driver.shutdown();
    return registered.get();
  }

  @Test
  void aJarOfWhichHalfIsMissingChangesNothing() throws Exception {
    Class<?> named = Class.forName(TreadlePlugin.class.getName(), true, new Half());
    SparkPlugin plugin = (SparkPlugin) named.getConstructor().newInstance();
    assertNull(plugin.driverPlugin());
    assertNull(plugin.executorPlugin());
  }

  @Test
  void withAnAddressStagesAreHeard() {
    assertEquals(1, heard(StageReporting.ADDRESSES, "rm1:8047, rm2:8047"));
  }

  @Test
  void settingsThatCannotBeUsedChangeNothing() {
    assertEquals(0, heard());
    assertEquals(0, heard(StageReporting.ADDRESSES, "nowhere"));
    assertEquals(0, heard(StageReporting.ADDRESSES, "rm1:8047", StageReporting.WAIT_MS, "-1"));
    assertEquals(0, heard(StageReporting.ADDRESSES, "rm1:8047", StageReporting.WAIT_MS, "soon"));
    assertEquals(0, heard(StageReporting.ADDRESSES, "rm1:8047", StageReporting.ENCRYPT, "yes"));
  }
}

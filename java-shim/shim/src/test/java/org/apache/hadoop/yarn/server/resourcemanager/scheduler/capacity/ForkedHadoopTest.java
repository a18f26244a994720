// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.SelfCheck;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Forks of Hadoop that renamed a member which the shim looks up by name. */
@Timeout(300)
class ForkedHadoopTest {
  /** Loads everything again, Hadoop with another name in place of one as long. */
  private static final class Fork extends URLClassLoader {
    private final String before;
    private final String after;

    Fork(String name) throws MalformedURLException {
      super(classPath(), ClassLoader.getSystemClassLoader().getParent());
      before = name;
      after = name.substring(0, name.length() - 1) + "X";
    }

    private static URL[] classPath() throws MalformedURLException {
      String[] paths = System.getProperty("java.class.path").split(File.pathSeparator);
      URL[] urls = new URL[paths.length];
      for (int i = 0; i < paths.length; i++) {
        urls[i] = new File(paths[i]).toURI().toURL();
      }
      return urls;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
      String file = name.replace('.', '/') + ".class";
      if (!name.startsWith("org.apache.hadoop.yarn.server.resourcemanager.")) {
        return super.findClass(name);
      }
      try (InputStream in = getResourceAsStream(file)) {
        if (in == null) {
          throw new ClassNotFoundException(name);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] buffer = new byte[8192];
        for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
          bytes.write(buffer, 0, count);
        }
        byte[] forked = new String(bytes.toByteArray(), StandardCharsets.ISO_8859_1).replace(before, after)
            .getBytes(StandardCharsets.ISO_8859_1);
        return defineClass(name, forked, 0, forked.length);
      } catch (IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }

    /** Calls a static method without parameters, or with a text, of a class of this loader. */
    Object call(Class<?> owner, String name, String... words) throws Exception {
      ClassLoader around = Thread.currentThread().getContextClassLoader();
      Thread.currentThread().setContextClassLoader(this);
      try {
        Method method = loadClass(owner.getName())
            .getDeclaredMethod(name, words.length == 0 ? new Class<?>[0] : new Class<?>[] {String.class});
        method.setAccessible(true);
        return method.invoke(null, (Object[]) words);
      } finally {
        Thread.currentThread().setContextClassLoader(around);
      }
    }
  }

  /** What runs in a fork. */
  public static final class InFork {
    /** Starts a ResourceManager with an engine that answers, and shows what its shim does. */
    public static Map<String, String> run(String mode) throws Exception {
      MockRM rm = TestRms.start(TestRms.withEngine(mode), Frame::answer);
      try {
        Map<String, String> seen = new HashMap<>();
        if (TestRms.text(rm, "Refusal").isEmpty()) {
          Await.until("an engine has answered, or is refused",
              () -> TestRms.number(rm, "LeaseHeld") == 1 || !TestRms.text(rm, "LastError").isEmpty());
        }
        MockNM node = rm.registerNode("h1:1234", 8192);
        TestRms.launch(rm, TestRms.submit(rm, 1024), node);
        seen.put("Refusal", TestRms.text(rm, "Refusal"));
        seen.put("LastError", TestRms.text(rm, "LastError"));
        seen.put("LeaseHeld", Long.toString(TestRms.number(rm, "LeaseHeld")));
        seen.put("PlacedByCapacityScheduler", Long.toString(TestRms.number(rm, "PlacedByCapacityScheduler")));
        return seen;
      } finally {
        rm.stop();
      }
    }
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> run(Fork fork, String mode) throws Exception {
    return (Map<String, String>) fork.call(InFork.class, "run", mode);
  }

  @ParameterizedTest
  @ValueSource(strings = {"getOrderingPolicy", "cachedResourceLimitsForHeadroom"})
  void oneWithoutAMemberIsRefusedByName(String member) throws Exception {
    try (Fork fork = new Fork(member)) {
      Map<String, String> seen = run(fork, "observe_only");
      assertTrue(seen.get("Refusal").contains("lacks what Treadle needs"), seen.toString());
      assertTrue(seen.get("Refusal").contains("LeafQueue." + member), seen.toString());
      assertEquals("1", seen.get("PlacedByCapacityScheduler"));
      assertTrue(String.valueOf(fork.call(SelfCheck.class, "verdict")).contains("LeafQueue." + member));
    }
  }
}

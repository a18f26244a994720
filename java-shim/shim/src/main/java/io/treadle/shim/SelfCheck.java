// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.hadoop.thirdparty.com.google.common.base.Suppliers;

/**
 * Looks up, in the running Hadoop, everything of Hadoop that the shim's own class files refer to, by the list that the
 * build writes (java-shim/references), and what {@link LeafQueues} looks up by name. A missing member would otherwise
 * show when the code that needs it runs for the first time, perhaps months after the start. {@code treadle doctor} does
 * so without a ResourceManager, on the class path of a Hadoop, with the Java that the ResourceManager would have.
 */
public final class SelfCheck {
  private static final String SCHEDULER =
      "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler";
  private static final String LIST = "hadoop-references";
  private static final int MISSING_SHOWN = 10;
  private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();
  private static final Supplier<String> VERDICT = Suppliers.memoize(() -> of(SelfCheck.class.getClassLoader()));

  private SelfCheck() {
  }

  /** Prints the problems and exits with 1, or prints that there are none. */
  public static void main(String[] arguments) {
    String reason = verdict();
    System.out.println(reason == null ? "Java " + System.getProperty("java.version") : reason);
    System.exit(reason == null ? 0 : 1);
  }

  /**
   * Checks the shim's own references, once in the life of the JVM.
   *
   * @return the problem, in words for an administrator, or null
   */
  public static String verdict() {
    return VERDICT.get();
  }

  private static String of(ClassLoader loader) {
    try {
      Class.forName(SCHEDULER, true, loader);
      List<String> missing = missing(list(), loader);
      missing.addAll(LeafQueues.missing());
      return missing.isEmpty() ? null : "this Hadoop lacks what Treadle needs: "
          + missing.stream().limit(MISSING_SHOWN).collect(Collectors.joining(", "));
    } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError e) {
      return "Treadle cannot check itself against this Hadoop: " + e;
    }
  }

  /** The list: {@code CLASS} or {@code CLASS NAME DESCRIPTOR}, with {@code /} between the parts of a class's name. */
  static List<String> list() throws IOException {
    InputStream in = SelfCheck.class.getResourceAsStream(LIST);
    if (in == null) {
      throw new IOException("its jar lacks the list " + LIST + ": it was not built as java-shim/pom.xml says");
    }
    try (BufferedReader reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
      return reader.lines().collect(Collectors.toList());
    }
  }

  /** Those lines of a list that the classes of a loader lack. */
  static List<String> missing(List<String> list, ClassLoader loader) {
    List<String> missing = new ArrayList<>();
    for (String line : list) {
      String[] parts = line.split(" ");
      if (!exists(parts, loader)) {
        missing.add(parts[0].replace('/', '.') + line.substring(parts[0].length()).replaceFirst(" ", "."));
      }
    }
    return missing;
  }

  private static boolean exists(String[] line, ClassLoader loader) {
    try {
      Class<?> type = Class.forName(line[0].replace('/', '.'), false, loader);
      if (line.length > 1 && !line[2].startsWith("(")) {
        MethodType getter = MethodType.fromMethodDescriptorString("()" + line[2], loader);
        LOOKUP.findGetter(type, line[1], getter.returnType());
      } else if (line.length > 1 && "<init>".equals(line[1])) {
        LOOKUP.findConstructor(type, MethodType.fromMethodDescriptorString(line[2], loader));
      } else if (line.length > 1) {
        LOOKUP.findVirtual(type, line[1], MethodType.fromMethodDescriptorString(line[2], loader));
      }
      return true;
    } catch (IllegalAccessException e) {
      return true; // it is there, static or not for this class
    } catch (ReflectiveOperationException | TypeNotPresentException e) {
      return false;
    } catch (LinkageError e) {
      return line.length > 1; // another class that its members mention is not there: no proof of anything
    }
  }
}

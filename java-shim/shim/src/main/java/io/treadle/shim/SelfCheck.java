// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

/**
 * The references of the shim, looked up without a ResourceManager: {@code treadle doctor} runs it on the class path of
 * a Hadoop, with the Java that the ResourceManager would have.
 */
public final class SelfCheck {
  private static final String SCHEDULER =
      "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler";

  private SelfCheck() {
  }

  /** Prints what is wrong and exits with 1, or says that nothing is. */
  public static void main(String[] arguments) {
    String reason = verdict();
    System.out.println(reason == null ? "Java " + System.getProperty("java.version") : reason);
    System.exit(reason == null ? 0 : 1);
  }

  /** What is wrong, in words for an administrator, or null. */
  static String verdict() {
    try {
      Class.forName(SCHEDULER, true, SelfCheck.class.getClassLoader());
    } catch (ClassNotFoundException | LinkageError e) {
      return "Treadle's scheduler cannot be loaded: " + e;
    }
    String reason = ReferenceCheck.verdict();
    return reason != null || LeafQueues.missingLimits().isEmpty() ? reason
        : "mode enforce is refused here: this Hadoop lacks " + String.join(", ", LeafQueues.missingLimits());
  }
}

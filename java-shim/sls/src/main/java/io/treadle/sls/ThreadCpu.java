// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** The CPU time that the threads of this JVM have used so far, by their purpose. */
final class ThreadCpu {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private ThreadCpu() {
  }

  /** CPU time of the calling thread in nanoseconds. */
  static long currentThreadNanos() {
    return THREADS.getCurrentThreadCpuTime();
  }

  /** CPU time of the whole JVM in nanoseconds, garbage collection and compilation included. */
  static long processNanos() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  /** Nanoseconds by group of threads, of the Java threads alive now. */
  static Map<String, Long> byGroup() {
    Map<String, Long> groups = new TreeMap<>();
    long[] ids = THREADS.getAllThreadIds();
    ThreadInfo[] infos = THREADS.getThreadInfo(ids);
    for (int i = 0; i < ids.length; i++) {
      long nanos = THREADS.getThreadCpuTime(ids[i]);
      if (infos[i] != null && nanos > 0) {
        groups.merge(group(infos[i].getThreadName()), nanos, Long::sum);
      }
    }
    return groups;
  }

  /** The group of a thread, by the names that Hadoop, SLS and the shim give to theirs. */
  static String group(String threadName) {
    String name = threadName.toLowerCase(Locale.ROOT);
    if (name.contains("treadle")) {
      return name.contains("measurement") ? "measurement" : "treadle";
    }
    if (name.startsWith("schedulereventdispatcher")) {
      return "scheduler_events";
    }
    if (name.startsWith("asynccapacityschedulerthread")) {
      return "async_scheduling";
    }
    if (name.equals(SlsMeasurements.COMMITTER_THREAD)) {
      return "async_commits";
    }
    if (name.startsWith("pool-")) {
      return "simulators";
    }
    return name.contains("dispatcher") ? "rm_events" : "other";
  }

  /** Returns a description of deadlocked threads, or null. */
  static String deadlock() {
    long[] ids = THREADS.findDeadlockedThreads();
    if (ids == null) {
      return null;
    }
    StringBuilder text = new StringBuilder();
    for (ThreadInfo info : THREADS.getThreadInfo(ids, 20)) {
      text.append(info);
    }
    return text.toString();
  }
}

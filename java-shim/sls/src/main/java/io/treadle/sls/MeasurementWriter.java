// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.QueueMetrics;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Samples a running simulation every 100 ms and writes the measurements to a JSON file, replaced once a second and when
 * the workload is done. The field {@code state} is {@code waiting} (for the scheduler or the first container), {@code
 * running} or {@code finished}; {@code treadle lab bench} reads the file while the simulation runs.
 */
final class MeasurementWriter {
  private static final long SAMPLE_MS = 100;
  private static final int SAMPLES_PER_WRITE = 10;
  /** Looking for deadlocks stops all threads for a moment. */
  private static final int SAMPLES_PER_DEADLOCK_CHECK = 100;
  private static final int MAX_SAMPLES = 72_000;

  private final SlsMeasurements measurements;
  private final Path file;
  private final int jobs;
  private final long warmMs;
  private final long windowMs;
  /** The scheduler's own rule of thumb for a node that has gone quiet: twice the heartbeat interval. */
  private final long staleMs;
  private final ObjectMapper json = new ObjectMapper();
  private final ScheduledExecutorService timer;
  private final List<double[]> samples = new ArrayList<>();

  private Map<String, Long> cpuAtStart;
  private Map<String, Long> cpuAtEnd;
  private Map<String, Object> shimAtStart;
  private Map<String, Object> window;
  private boolean finished;
  private String failure;
  private String deadlock;
  private int ticks;

  MeasurementWriter(SlsMeasurements measurements, String output, Configuration conf) throws IOException {
    this.measurements = measurements;
    this.file = new File(output).toPath().toAbsolutePath();
    this.jobs = conf.getInt(SlsMeasurements.JOBS_KEY, Integer.MAX_VALUE);
    this.windowMs = conf.getLong(SlsMeasurements.WINDOW_KEY, 0);
    this.warmMs = windowMs == 0 ? 0 : conf.getLong(SlsMeasurements.WARM_KEY, 0);
    this.staleMs = 2 * conf.getLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS,
        YarnConfiguration.DEFAULT_RM_NM_HEARTBEAT_INTERVAL_MS);
    Files.createDirectories(file.getParent());
    this.timer = Executors.newSingleThreadScheduledExecutor(task -> {
      Thread thread = new Thread(task, "treadle-measurement");
      thread.setDaemon(true);
      return thread;
    });
  }

  void start() {
    timer.scheduleAtFixedRate(this::tick, 0, SAMPLE_MS, TimeUnit.MILLISECONDS);
  }

  void stop() {
    timer.shutdown();
    write();
  }

  private void tick() {
    try {
      sample();
      ticks++;
      if (ticks % SAMPLES_PER_DEADLOCK_CHECK == 0) {
        deadlock = ThreadCpu.deadlock();
      }
      if (ticks % SAMPLES_PER_WRITE == 0) {
        write();
      }
    } catch (RuntimeException e) {
      // the timer drops a task that throws: without this the benchmark would only see a file that no longer changes
      failure = e.toString();
    }
  }

  private synchronized void sample() {
    CapacityScheduler scheduler = measurements.scheduler();
    if (finished || scheduler.getRootQueue() == null) {
      return;
    }
    EventTimeline commits = measurements.commits();
    if (cpuAtStart == null && commits.total() > 0 && measurements.elapsedMs() >= commits.firstMs() + warmMs) {
      begin();
    }
    if (samples.size() < MAX_SAMPLES) {
      QueueMetrics root = scheduler.getRootQueueMetrics();
      samples.add(new double[] {measurements.elapsedMs(), root.getAllocatedContainers(), root.getPendingContainers(),
          root.getAppsRunning(), root.getAppsPending(), root.getReservedContainers(), staleNodes(scheduler)});
    }
    if (measurements.attemptsEnded().total() >= jobs || windowIsOver()) {
      finished = true;
      cpuAtEnd = cpuNanos();
      write();
    }
  }

  /** From here on the CPU counts; of a window also how long things take, and how many containers there are. */
  private void begin() {
    cpuAtStart = cpuNanos();
    shimAtStart = ShimBean.status();
    if (windowMs > 0) {
      measurements.forgetDurations();
      window = new LinkedHashMap<>();
      window.put("start_ms", measurements.elapsedMs());
      window.put("commits_before", measurements.commits().total());
      window.put("completions_before", measurements.completions().total());
    }
  }

  private boolean windowIsOver() {
    if (window == null || measurements.elapsedMs() < (double) window.get("start_ms") + windowMs) {
      return false;
    }
    window.put("end_ms", measurements.elapsedMs());
    window.put("commits", measurements.commits().total() - (long) window.get("commits_before"));
    window.put("completions", measurements.completions().total() - (long) window.get("completions_before"));
    return true;
  }

  private int staleNodes(CapacityScheduler scheduler) {
    int stale = 0;
    long now = Time.monotonicNow();
    for (FiCaSchedulerNode node : scheduler.getAllNodes()) {
      if (now - node.getLastHeartbeatMonotonicTime() > staleMs) {
        stale++;
      }
    }
    return stale;
  }

  private static Map<String, Long> cpuNanos() {
    Map<String, Long> cpu = ThreadCpu.byGroup();
    cpu.put("process", ThreadCpu.processNanos());
    return cpu;
  }

  private synchronized void write() {
    try {
      Path temporary = file.resolveSibling(file.getFileName() + ".tmp");
      json.writeValue(temporary.toFile(), report());
      Files.move(temporary, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      System.err.println("treadle lab bench: cannot write " + file + ": " + e);
    }
  }

  private Map<String, Object> report() {
    Map<String, Object> report = new LinkedHashMap<>();
    String unfinished = measurements.commits().total() > 0 ? "running" : "waiting";
    report.put("state", finished ? "finished" : unfinished);
    report.put("scheduler", measurements.scheduler().getClass().getName());
    report.put("origin_epoch_ms", measurements.originEpochMs());
    report.put("elapsed_ms", measurements.elapsedMs());
    report.put("nodes", measurements.scheduler().getNumClusterNodes());
    report.put("attempts_ended", measurements.attemptsEnded().total());
    report.put("attempts_not_finished", measurements.attemptsNotFinished().total());
    report.put("commits", timeline(measurements.commits()));
    report.put("completions", timeline(measurements.completions()));
    report.put("heartbeats", timeline(measurements.heartbeats()));
    report.put("commit_wall", histogram(measurements.commitWall()));
    report.put("commit_cpu", histogram(measurements.commitCpu()));
    report.put("commit_refused_wall", histogram(measurements.commitRefusedWall()));
    report.put("heartbeat_wall", histogram(measurements.heartbeatWall()));
    report.put("allocate_wall", histogram(measurements.allocateWall()));
    report.put("allocate_cpu", histogram(measurements.allocateCpu()));
    report.put("cpu_ns", cpuUsed());
    report.put("window", window);
    report.put("shim", ShimBean.status());
    report.put("engines", ShimBean.engines());
    report.put("wait_columns", FirstWaits.COLUMNS);
    report.put("waits", finished ? measurements.waits().rows() : Collections.emptyList());
    report.put("job_columns", JobLog.COLUMNS);
    report.put("jobs", finished ? measurements.jobs().rows() : Collections.emptyList());
    report.put("shim_at_first_container", shimAtStart);
    report.put("sample_columns",
        new String[] {"elapsed_ms", "running", "pending", "apps_running", "apps_pending", "reserved", "stale_nodes"});
    report.put("samples", samples);
    report.put("deadlock", deadlock);
    report.put("failure", failure);
    return report;
  }

  /** CPU time from the first container on; threads that were not yet there then count whole. */
  private Map<String, Long> cpuUsed() {
    Map<String, Long> used = new TreeMap<>();
    if (cpuAtStart != null) {
      Map<String, Long> now = cpuAtEnd == null ? cpuNanos() : cpuAtEnd;
      now.forEach((group, nanos) -> used.put(group, nanos - cpuAtStart.getOrDefault(group, 0L)));
    }
    return used;
  }

  private static Map<String, Object> timeline(EventTimeline events) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("total", events.total());
    fields.put("first_ms", events.firstMs());
    fields.put("last_ms", events.lastMs());
    fields.put("bucket_ms", EventTimeline.BUCKET_MS);
    fields.put("counts", events.counts());
    return fields;
  }

  private static Map<String, Object> histogram(LatencyHistogram durations) {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put("count", durations.count());
    fields.put("total_ns", durations.totalNanos());
    fields.put("p50_ns", durations.quantileNanos(0.5));
    fields.put("p99_ns", durations.quantileNanos(0.99));
    fields.put("max_ns", durations.quantileNanos(1));
    return fields;
  }
}

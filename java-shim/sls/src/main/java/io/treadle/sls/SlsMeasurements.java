// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.AppAttemptRemovedSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.SchedulerEventType;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.scheduler.Tracker;

/**
 * Measures a scheduler in SLS, identically for all schedulers: the schedulers' overrides only delegate to here.
 *
 * <p>It replaces SLS's own metrics, which look at every live container of an application for each container that ends
 * and would distort the measurement. A {@link MeasurementWriter} writes everything to a file every second.
 */
final class SlsMeasurements {
  /** Where the results go: a file that is replaced about once a second. */
  static final String OUTPUT_KEY = "treadle.bench.output";
  /** How many applications the workload has: when that many attempts are over, it is done. */
  static final String JOBS_KEY = "treadle.bench.jobs";
  /** For how long is measured, if the load never ends by itself; 0 or not set: until all jobs have ended. */
  static final String WINDOW_KEY = "treadle.bench.window-ms";
  /** How long after the first commit the window begins. */
  static final String WARM_KEY = "treadle.bench.warm-ms";
  /** With how many engines the load starts, each of them serving its own; one if it is not set. */
  static final String ENGINES_KEY = "treadle.bench.engines";
  /** The name given to the CapacityScheduler's committer thread, which has none of its own. */
  static final String COMMITTER_THREAD = "resourcecommitterservice";

  private final CapacityScheduler scheduler;
  private final BooleanSupplier ready;
  private final Tracker tracker = new Tracker();
  private final long originNanos = System.nanoTime();
  private final long originEpochMs = System.currentTimeMillis();

  private final EventTimeline commits = new EventTimeline(originNanos);
  private final EventTimeline completions = new EventTimeline(originNanos);
  private final EventTimeline heartbeats = new EventTimeline(originNanos);
  private final EventTimeline attemptsEnded = new EventTimeline(originNanos);
  private final EventTimeline attemptsNotFinished = new EventTimeline(originNanos);
  private final LatencyHistogram commitWall = new LatencyHistogram();
  private final LatencyHistogram commitCpu = new LatencyHistogram();
  private final LatencyHistogram commitRefusedWall = new LatencyHistogram();
  private final LatencyHistogram heartbeatWall = new LatencyHistogram();
  private final LatencyHistogram allocateWall = new LatencyHistogram();
  private final LatencyHistogram allocateCpu = new LatencyHistogram();

  private final FirstWaits waits = new FirstWaits(originNanos);
  private final JobLog jobs = new JobLog();

  private volatile Thread committer;
  private volatile SLSRunner runner;
  private MeasurementWriter writer;

  /**
   * Measurements of one scheduler.
   *
   * @param scheduler whose metrics are sampled
   * @param ready whether the scheduler is in the state that is to be measured; the load starts when it is
   */
  SlsMeasurements(CapacityScheduler scheduler, BooleanSupplier ready) {
    this.scheduler = scheduler;
    this.ready = ready;
  }

  /** Starts to write the results to the file that {@link #OUTPUT_KEY} names; without one nothing is written. */
  synchronized void start(Configuration conf) throws IOException {
    String output = conf.get(OUTPUT_KEY);
    if (writer == null && output != null) {
      writer = new MeasurementWriter(this, output, conf);
      writer.start();
    }
  }

  /** Writes a last time and stops. */
  synchronized void stop() {
    if (writer != null) {
      writer.stop();
    }
  }

  /** Hands one event to the scheduler; a node's heartbeat is timed. */
  void handle(SchedulerEvent event, Runnable propagate) {
    boolean heartbeat = event.getType() == SchedulerEventType.NODE_UPDATE;
    long startNanos = System.nanoTime();
    propagate.run();
    if (heartbeat) {
      long endNanos = System.nanoTime();
      heartbeatWall.record(endNanos - startNanos);
      heartbeats.record(endNanos);
    } else if (event instanceof AppAttemptRemovedSchedulerEvent) {
      RMAppAttemptState state = ((AppAttemptRemovedSchedulerEvent) event).getFinalAttemptState();
      if (state != RMAppAttemptState.FINISHED && state != RMAppAttemptState.FINISHING) {
        attemptsNotFinished.record(System.nanoTime());
      }
      attemptsEnded.record(System.nanoTime());
    }
  }

  /** Times one call of an application master. */
  Allocation allocate(ApplicationAttemptId attempt, List<ResourceRequest> asks, Supplier<Allocation> propagate) {
    long startNanos = System.nanoTime();
    noteAsks(attempt, asks, startNanos);
    long startCpuNanos = ThreadCpu.currentThreadNanos();
    try {
      return propagate.get();
    } finally {
      allocateCpu.record(ThreadCpu.currentThreadNanos() - startCpuNanos);
      allocateWall.record(System.nanoTime() - startNanos);
    }
  }

  private void noteAsks(ApplicationAttemptId attempt, List<ResourceRequest> asks, long nanos) {
    SchedulerApplicationAttempt known = scheduler.getApplicationAttempt(attempt);
    if (known != null) {
      waits.asked(attempt, known.getQueueName(), asks, nanos);
    }
  }

  /** Times one commit. */
  boolean commit(ResourceCommitRequest<?, ?> request, BooleanSupplier propagate) {
    nameCommitter();
    long startNanos = System.nanoTime();
    long startCpuNanos = ThreadCpu.currentThreadNanos();
    boolean committed = propagate.getAsBoolean();
    long cpuNanos = ThreadCpu.currentThreadNanos() - startCpuNanos;
    long endNanos = System.nanoTime();
    if (committed) {
      commitCpu.record(cpuNanos);
      commitWall.record(endNanos - startNanos);
      commits.record(endNanos);
      ContainerAllocationProposal<?, ?> first = request.getFirstAllocatedOrReservedContainer();
      if (first != null) {
        waits.committed(first.getAllocatedOrReservedContainer().getSchedulerApplicationAttempt()
            .getApplicationAttemptId(), endNanos);
      }
    } else {
      commitRefusedWall.record(endNanos - startNanos);
    }
    return committed;
  }

  /** Notes that a container has ended. */
  void completed() {
    completions.record(System.nanoTime());
  }

  /**
   * SLS is about to start the load: waits until the scheduler is ready for it, or until the benchmark ends this JVM.
   */
  void setRunner(SLSRunner slsRunner) {
    runner = slsRunner;
    try {
      Map<String, Map<String, String>> attributes = Script.of(scheduler.getConfig()).attributes();
      TestbedNodes.attribute(scheduler, slsRunner.getNmMap().size(), attributes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return;
    }
    while (!ready.getAsBoolean()) {
      try {
        Thread.sleep(20);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }

  SLSRunner runner() {
    return runner;
  }

  Tracker tracker() {
    return tracker;
  }

  CapacityScheduler scheduler() {
    return scheduler;
  }

  long originEpochMs() {
    return originEpochMs;
  }

  double elapsedMs() {
    return (System.nanoTime() - originNanos) / 1e6;
  }

  /** Counts durations from now on; one that is recorded meanwhile may be lost. */
  void forgetDurations() {
    Arrays.asList(commitWall, commitCpu, commitRefusedWall, heartbeatWall, allocateWall, allocateCpu)
        .forEach(LatencyHistogram::clear);
  }

  EventTimeline commits() {
    return commits;
  }

  EventTimeline completions() {
    return completions;
  }

  EventTimeline heartbeats() {
    return heartbeats;
  }

  EventTimeline attemptsEnded() {
    return attemptsEnded;
  }

  EventTimeline attemptsNotFinished() {
    return attemptsNotFinished;
  }

  FirstWaits waits() {
    return waits;
  }

  JobLog jobs() {
    return jobs;
  }

  LatencyHistogram commitWall() {
    return commitWall;
  }

  LatencyHistogram commitCpu() {
    return commitCpu;
  }

  LatencyHistogram commitRefusedWall() {
    return commitRefusedWall;
  }

  LatencyHistogram heartbeatWall() {
    return heartbeatWall;
  }

  LatencyHistogram allocateWall() {
    return allocateWall;
  }

  LatencyHistogram allocateCpu() {
    return allocateCpu;
  }

  private void nameCommitter() {
    Thread current = Thread.currentThread();
    if (current != committer && current.getName().startsWith("Thread-")) {
      current.setName(COMMITTER_THREAD);
      committer = current;
    }
  }
}

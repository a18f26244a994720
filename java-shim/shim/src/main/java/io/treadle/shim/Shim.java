// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.Headroom;
import io.treadle.shim.commit.TreadleCommitRequest;
import io.treadle.shim.commit.Unjudgeable;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.ExternalSidecar;
import io.treadle.shim.link.Lease;
import io.treadle.shim.link.Link;
import io.treadle.shim.link.ManagedSidecar;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.mirror.Taps;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ContainerUpdates;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GateProbe;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * All components of Treadle for one scheduler. Made in the scheduler's {@code serviceInit}, where it starts nothing;
 * {@link #start} starts the link and, through it, the sidecar, unless the mode is {@code off} or a self-check fails.
 */
public class Shim {
  private static final Log LOG = new Log(Shim.class);
  private static final int JOURNAL_CAPACITY = 1 << 18;
  private static final AtomicInteger INSTANCES = new AtomicInteger();
  /** As long as asynchronous scheduling itself pauses between two rounds over the nodes. */
  private static final long ASYNCHRONOUS_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  private final String thread = "treadle-link-" + INSTANCES.incrementAndGet();
  private final SchedulerPort port;
  private final Journal journal = new Journal(JOURNAL_CAPACITY, this::signal);
  private final Taps taps;
  private final Mirror mirror;
  private final Lease lease;
  private final CommitPipeline pipeline;
  private final Unjudgeable unjudgeable = new Unjudgeable();
  private final ShimMetrics metrics;
  /** Null unless we are started, fit for this Hadoop, and the mode is, or was since the start, another than off. */
  private volatile Link link;
  /** Whether the settings at start-up were good: otherwise all of them are read again by a refresh. */
  private boolean settingsRead;
  private boolean started;
  private volatile ShimConfig config;

  /** A shim that has not started anything. Settings that cannot be used are logged and mean mode {@code off}. */
  public Shim(SchedulerPort port, Configuration conf, Escapes escapes) {
    this.port = port;
    String error = "";
    try {
      config = ShimConfig.read(conf);
      settingsRead = true;
    } catch (IllegalArgumentException e) {
      config = ShimConfig.off(conf);
      error = e.getMessage();
      LOG.error("Treadle is off: {}", error);
    }
    taps = new Taps(journal, port);
    long staleMs = config.nodeStaleMs(conf);
    CommitSettings commits = new CommitSettings(config.batchSize, staleMs, Time::monotonicNow);
    // room on nodes that is kept for increases of containers there: commits and the engine see so much less
    Map<NodeId, Resource> held = new HashMap<>();
    lease = new Lease(System::nanoTime, config.leaseMs);
    MirrorSettings bounds = new MirrorSettings(config.frameMaxBytes, NodeCondition.noticeMs(staleMs), 200, 1000);
    mirror = new Mirror(port, journal, bounds, held);
    metrics = new ShimMetrics();
    pipeline = new CommitPipeline(port, metrics, commits, held, journal::nodeChanged);
    metrics.gauge("LeaseHeld", () -> lease.held() ? 1 : 0);
    metrics.gauge("LeaseFlips", lease::flips);
    metrics.gauge("Snapshots", mirror::snapshots);
    metrics.gauge("CaughtExceptions", escapes::count);
    metrics.gauge("Stalled", () -> pipeline.starving() ? 1 : 0);
    metrics.gauge("Schedules", () -> schedules() ? 1 : 0);
    configure();
    metrics.troubles.note(Troubles.Kind.SETTINGS, error);
    reportIgnored(conf);
  }

  private void reportIgnored(Configuration conf) {
    List<String> sentences = config.ignored(conf);
    sentences.forEach(sentence -> LOG.warn("Treadle: {}", sentence));
    metrics.show(ShimMetrics.Text.IGNORED_SETTINGS, String.join("; ", sentences));
  }

  /** The scheduler has started. */
  public synchronized void start() {
    started = true;
    LOG.info("Treadle's mode is {}", config.mode.text());
    try {
      metrics.start();
    } finally {
      // an engine without metrics can still schedule
      updateLink();
    }
  }

  /** The scheduler is stopping: ends the link and the sidecar, and waits for that a few seconds at most. */
  public synchronized void stop() {
    started = false;
    lease.release();
    Link current = link;
    link = null;
    try {
      if (current != null) {
        current.stop();
      }
    } finally {
      metrics.stop();
    }
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  private void signal() {
    Link current = link;
    if (current != null) {
      current.signal();
    }
  }

  /** Has the link go by the settings, or starts it once an engine is to be asked. */
  private void updateLink() {
    if (link != null) {
      link.settings(config);
      return;
    }
    if (!started || config.mode == ShimConfig.Mode.OFF) {
      // of a mode in which we did not fit
      metrics.show(ShimMetrics.Text.REFUSAL, null);
      return;
    }
    // looked at once: after that the files on disk may be those of another release
    String unfit = unfitness();
    if (unfit != null) {
      LOG.error("Treadle stays off, the CapacityScheduler schedules: {}", unfit);
      metrics.troubles.note(Troubles.Kind.SETTINGS, unfit);
      metrics.show(ShimMetrics.Text.REFUSAL, unfit);
      return;
    }
    link = new Link(thread, mirror, lease, source(), pipeline, metrics, this::schedules, config);
    link.start();
  }

  private void configure() {
    metrics.show(ShimMetrics.Text.MODE, config.mode.text());
    lease.duration(config.leaseMs);
    pipeline.guard().configure(config.starvationMs, config.starvationHoldMs);
  }

  /** Where the engine comes from. */
  private EngineSource source() {
    if (!config.engineClass.isEmpty()) {
      return EngineSource.ofClass(config.engineClass);
    }
    if (config.external) {
      return new ExternalSidecar(config);
    }
    return new ManagedSidecar(config, () -> metrics.add(ShimMetrics.Counter.SIDECAR_STARTS, 1));
  }

  /** Why we cannot work in this Hadoop, or null. */
  private String unfitness() {
    try {
      String reason = SelfCheck.verdict();
      return reason != null ? reason : GateProbe.verdict();
    } catch (LinkageError e) {
      return "Treadle cannot check itself against this Hadoop: " + e;
    }
  }

  /**
   * Whether an engine schedules, so that the stock scheduler must not. Costs a look at the clock. Threads of
   * asynchronous scheduling, which come again at once and hold no lock, are kept a little where it is closed.
   *
   * @param withNodeHeartbeat false on a thread of asynchronous scheduling
   */
  public boolean closesGate(boolean withNodeHeartbeat) {
    boolean closed = schedules();
    if (closed && !withNodeHeartbeat) {
      LockSupport.parkNanos(this, ASYNCHRONOUS_PAUSE_NANOS);
    }
    return closed;
  }

  private boolean schedules() {
    return config.mode == ShimConfig.Mode.ENFORCE && link != null && pipeline.mayEnforce() && lease.schedules()
        && !pipeline.starving();
  }

  /** The methods that the scheduler's overrides call. */
  public Taps taps() {
    return taps;
  }

  /** The counters. */
  public ShimMetrics metrics() {
    return metrics;
  }

  /**
   * Checks the settings that {@code -refreshQueues} takes over; changes nothing.
   *
   * @throws IllegalArgumentException naming the key and the remedy
   */
  public ShimConfig check(Configuration conf) {
    return settingsRead ? config.refreshed(conf) : ShimConfig.read(conf);
  }

  /**
   * The scheduler took a new configuration.
   *
   * @param conf the configuration
   * @param checked the settings to take over, or null if they were bad
   * @param refused why, or null if they are good
   */
  public synchronized void refreshed(Configuration conf, ShimConfig checked, IllegalArgumentException refused) {
    if (refused != null) {
      LOG.error("Treadle keeps mode {}: {}", config.mode.text(), refused.getMessage());
      metrics.troubles.note(Troubles.Kind.SETTINGS, refused.getMessage());
    }
    if (checked != null) {
      if (checked.mode != config.mode) {
        LOG.info("Treadle's mode is {}, it was {}: the configuration was refreshed", checked.mode.text(),
            config.mode.text());
      }
      config = checked;
      settingsRead = true;
      metrics.troubles.note(Troubles.Kind.SETTINGS, "");
      configure();
    }
    reportIgnored(conf);
    pipeline.refreshed();
    journal.queuesChanged();
    updateLink();
  }

  /** What an AM holds while it changes its asks and takes its containers. Any thread. */
  public Lock asks(ApplicationAttemptId attempt) {
    return pipeline.asks(attempt);
  }

  /** An AM asked for updates of its containers. */
  public void updatesAsked(ApplicationAttemptId attempt, ContainerUpdates requests) {
    if (requests != null && (!requests.getIncreaseRequests().isEmpty() || !requests.getPromotionRequests().isEmpty())) {
      pipeline.updateAsked(attempt);
    }
  }

  /** Returns the requests of an AM that the scheduler can evaluate; called before the scheduler receives them. */
  public List<SchedulingRequest> judgeable(ApplicationAttemptId attempt, List<SchedulingRequest> asked) {
    return unjudgeable.without(port.scheduler().getRMContext(), attempt, asked);
  }

  /** An answer to an AM with the headroom that it really has. */
  public Allocation correctHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return schedules() ? Headroom.correct(port.scheduler(), allocation, attempt) : allocation;
  }

  /** A commit succeeded, ours or a native one; {@code am}: for the container of an ApplicationMaster. */
  public void committed(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request, boolean am) {
    boolean byTreadle = request instanceof TreadleCommitRequest;
    taps.mark(all -> all.committed(request, byTreadle, am));
    if (!request.getContainersToAllocate().isEmpty()) {
      SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed =
          request.getFirstAllocatedOrReservedContainer().getAllocatedOrReservedContainer();
      pipeline.guard().placed(placed);
      if (placed.getSchedulerRequestKey().getContainerToUpdate() == null) {
        metrics.placed(placed.getSchedulerApplicationAttempt().getApplicationId(), byTreadle);
      }
    }
  }
}

package io.treadle.shim;

import io.treadle.shim.config.BadSettingException;
import io.treadle.shim.config.Mode;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.journal.Taps;
import io.treadle.shim.link.Lease;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Everything of ours that belongs to one scheduler, put together. */
public final class Shim {
  private static final Logger LOG = LoggerFactory.getLogger(Shim.class);
  private static final int JOURNAL_CAPACITY = 1 << 18;

  private final Taps taps;
  private final Lease lease;
  private volatile ShimConfig config;
  private volatile boolean enforcing;

  /** A shim that has not started anything. Settings that cannot be used are logged and mean mode {@code off}. */
  public Shim(SchedulerPort port, Configuration conf, Escapes escapes) {
    config = initial(conf);
    Journal journal = new Journal(JOURNAL_CAPACITY);
    taps = new Taps(journal, port, t -> escapes.caught("taps", t));
    lease = new Lease(System::nanoTime, config.leaseMs());
  }

  private static ShimConfig initial(Configuration conf) {
    try {
      return ShimConfig.read(conf);
    } catch (BadSettingException e) {
      LOG.error("Treadle is off: {}", e.getMessage());
      return ShimConfig.off();
    }
  }

  /** The scheduler has started. */
  public void start() {
    enforcing = config.mode() == Mode.ENFORCE;
  }

  /** The scheduler is stopping. */
  public void stop() {
    enforcing = false;
    lease.release();
  }

  /** Whether an engine schedules, so that the stock scheduler must not. Costs a look at the clock. */
  public boolean gateClosed() {
    return enforcing && lease.held();
  }

  /** What the scheduler's overrides tell. */
  public Taps taps() {
    return taps;
  }

  /**
   * Checks the settings that {@code -refreshQueues} takes over; changes nothing.
   *
   * @throws BadSettingException naming the key and the remedy
   */
  public ShimConfig check(Configuration conf) throws BadSettingException {
    return config.refreshed(conf);
  }

  /**
   * The scheduler took a new configuration.
   *
   * @param checked the settings to take over, or null if they were bad
   * @param refused why, or null if they are good
   */
  public void refreshed(ShimConfig checked, BadSettingException refused) {
    if (refused != null) {
      LOG.error("Treadle keeps its settings: {}", refused.getMessage());
    }
    if (checked != null) {
      config = checked;
    }
  }

  /** An answer to an AM with the headroom that it really has. */
  public Allocation lowerHeadroom(Allocation allocation, ApplicationAttemptId attempt) {
    return allocation;
  }

  /** A commit succeeded, ours or a native one. */
  public void committed(ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> request) {
    taps.committed(request, false);
  }
}

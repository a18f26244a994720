// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

import io.treadle.shim.wire.ProposalFrame;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Treadle's settings in yarn-site.xml, all under {@code yarn.scheduler.treadle.}, checked. Defaults are here and in no
 * XML file. Immutable.
 */
public final class ShimConfig {
  public static final String PREFIX = "yarn.scheduler.treadle.";
  /** {@link Mode}; default {@code observe_only}. Read again by {@code -refreshQueues}. */
  public static final String MODE = PREFIX + "mode";
  /**
   * How long an answer of the engine keeps the native scheduler out, milliseconds. Read again by
   * {@code -refreshQueues}.
   */
  public static final String LEASE_MS = PREFIX + "lease-ms";
  /** The least time from one frame to the next, milliseconds. Read again by {@code -refreshQueues}. */
  public static final String TICK_MS = PREFIX + "tick-ms";
  /**
   * How long an engine may place nothing although something could be placed, milliseconds; 0: for ever. Read again by
   * {@code -refreshQueues}.
   */
  public static final String IDLE_GUARD_MS = PREFIX + "idle-guard-ms";
  /** {@link SidecarKind}; default {@code managed}. */
  public static final String SIDECAR = PREFIX + "sidecar";
  /** Managed: the executable to run, not split at blanks. */
  public static final String PYTHON_COMMAND = PREFIX + "python.command";
  /** Managed: the path of treadle.yaml; empty means its defaults. */
  public static final String CONFIG_FILE = PREFIX + "config.file";
  /** Managed: where the sidecar's standard error goes. */
  public static final String SIDECAR_LOG_FILE = PREFIX + "sidecar.log-file";
  /** Managed: how long the sidecar may take to become ready, milliseconds. */
  public static final String SIDECAR_START_TIMEOUT_MS = PREFIX + "sidecar.start-timeout-ms";
  /** External: the file in which the sidecar writes where it listens. */
  public static final String CONNECTION_FILE = PREFIX + "sidecar.connection-file";
  /** External: the user that the sidecar runs as; empty means the RM's. */
  public static final String SIDECAR_USER = PREFIX + "sidecar.user";
  /** The longest frame, bytes. */
  public static final String FRAME_MAX_BYTES = PREFIX + "frame.max-bytes";
  /** The most proposals in an answer. */
  public static final String PROPOSALS_MAX = PREFIX + "proposals.max";
  /** The most commits under one write lock. */
  public static final String BATCH_SIZE = PREFIX + "batch.size";
  /** How old a node's last heartbeat may be for a placement, milliseconds; 0: {@link #nodeStaleMs computed}. */
  public static final String NODE_STALE_MS = PREFIX + "node-stale-ms";
  /** For benchmarks and tests: a class that implements {@code Engine} and decides in this JVM instead of a sidecar. */
  public static final String ENGINE_CLASS = PREFIX + "engine.class";

  /** Not constants of YarnConfiguration in Hadoop 3.3. */
  private static final String SKIP_NODE_MULTIPLIER = "yarn.scheduler.skip.node.multiplier";
  private static final String HEARTBEATS = "yarn.resourcemanager.nodemanagers.heartbeat-interval-";
  private static final int LEAST_STALE_MS = 2000;
  private static final int KIB = 1024;
  private static final int MIB = 1024 * KIB;

  public final Mode mode;
  public final int leaseMs;
  public final int tickMs;
  /** How long an engine may place nothing although something could be placed, milliseconds; 0: for ever. */
  public final int idleGuardMs;
  public final SidecarSettings sidecar;
  public final int frameMaxBytes;
  /** The longest answer, bytes: no other has so many proposals and so long a status. */
  public final int replyMaxBytes;
  public final int proposalsMax;
  public final int batchSize;
  private final int nodeStaleMs;
  /** The name of an engine's class in this JVM, empty for a sidecar. */
  public final String engineClass;

  /** Settings; those that hold for the life of the scheduler are taken from {@code started}, unless it is null. */
  private ShimConfig(Settings settings, ShimConfig started) throws BadSettingException {
    boolean first = started == null;
    mode = settings.oneOf(MODE, Mode.class, Mode.OBSERVE_ONLY);
    leaseMs = settings.number(LEASE_MS, 2000, 100, 600_000);
    tickMs = settings.number(TICK_MS, Math.min(10, leaseMs / 4), 1, leaseMs / 4,
        "a quarter of " + LEASE_MS + ", which is " + leaseMs);
    idleGuardMs = settings.number(IDLE_GUARD_MS, 60_000, 0, 86_400_000);
    sidecar = first ? SidecarSettings.read(settings) : started.sidecar;
    frameMaxBytes = first ? settings.number(FRAME_MAX_BYTES, 8 * MIB, 64 * KIB, 256 * MIB) : started.frameMaxBytes;
    proposalsMax = first ? settings.number(PROPOSALS_MAX, 4096, 1, 1_000_000) : started.proposalsMax;
    replyMaxBytes = ProposalFrame.bytesMax(proposalsMax);
    batchSize = first ? settings.number(BATCH_SIZE, 48, 1, 4096) : started.batchSize;
    nodeStaleMs = first ? settings.number(NODE_STALE_MS, 0, 0, 3_600_000) : started.nodeStaleMs;
    engineClass = first ? settings.text(ENGINE_CLASS, "") : started.engineClass;
  }

  /**
   * Reads and checks all settings.
   *
   * @throws BadSettingException naming the first one that cannot be used, and the remedy
   */
  public static ShimConfig read(Configuration conf) throws BadSettingException {
    return new ShimConfig(new Settings(conf), null);
  }

  /** What holds after settings at start-up that cannot be used: everything at its default, and mode {@code off}. */
  public static ShimConfig off() {
    Configuration empty = new Configuration(false);
    empty.set(MODE, Mode.OFF.text());
    try {
      return read(empty);
    } catch (BadSettingException e) {
      throw new IllegalStateException("the defaults must be allowed", e);
    }
  }

  /**
   * These settings with mode, lease, tick and idle guard of {@code conf}: what {@code -refreshQueues} takes over. Other
   * keys are not looked at.
   *
   * @throws BadSettingException naming the first of the four that cannot be used, and the remedy
   */
  public ShimConfig refreshed(Configuration conf) throws BadSettingException {
    return new ShimConfig(new Settings(conf), this);
  }

  /**
   * How old a node's last heartbeat may be, milliseconds: {@link #NODE_STALE_MS}, or the longest heartbeat interval
   * times {@code yarn.scheduler.skip.node.multiplier}, as in asynchronous scheduling of newer releases, and at least
   * two seconds. Synchronous scheduling places at heartbeats only, so a silent node gets nothing there either.
   *
   * @param conf the RM's configuration
   */
  public long nodeStaleMs(Configuration conf) {
    if (nodeStaleMs > 0) {
      return nodeStaleMs;
    }
    return Math.max(LEAST_STALE_MS, heartbeatMs(conf) * conf.getInt(SKIP_NODE_MULTIPLIER, 2));
  }

  /**
   * The longest time from one heartbeat of a NodeManager to the next, milliseconds; a busy one may send fewer.
   *
   * @param conf the RM's configuration
   */
  public static long heartbeatMs(Configuration conf) {
    long usualMs = conf.getLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS,
        YarnConfiguration.DEFAULT_RM_NM_HEARTBEAT_INTERVAL_MS);
    return conf.getBoolean(HEARTBEATS + "scaling-enable", false)
        ? Math.max(usualMs, conf.getLong(HEARTBEATS + "max-ms", usualMs)) : usualMs;
  }

  /** Where the sidecar's log goes by default. */
  static File defaultLogFile() {
    String folder = System.getProperty("yarn.log.dir", System.getProperty("hadoop.log.dir", ""));
    return new File(folder.isEmpty() ? OwnFolder.PATH : folder, "treadle-sidecar.log");
  }

  /**
   * A folder for the log of an RM that has none: made once in the life of the JVM, for its user alone, under a name
   * that nobody can foresee. In the temporary folder itself anybody may have put a link by the log's name.
   */
  private static final class OwnFolder {
    private static final String PATH = made();

    private static String made() {
      try {
        return Files.createTempDirectory("treadle-log-").toString();
      } catch (IOException e) {
        // if that cannot be written either, BoundedLog reports it
        return System.getProperty("user.dir");
      }
    }
  }
}

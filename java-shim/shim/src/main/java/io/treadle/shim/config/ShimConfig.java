package io.treadle.shim.config;

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
  /** External: the file in which the sidecar tells where it listens. */
  public static final String CONNECTION_FILE = PREFIX + "sidecar.connection-file";
  /** External: the user that the sidecar runs as; empty means the RM's. */
  public static final String SIDECAR_USER = PREFIX + "sidecar.user";
  /** The longest frame, bytes. */
  public static final String FRAME_MAX_BYTES = PREFIX + "frame.max-bytes";
  /** The longest answer, bytes. */
  public static final String REPLY_MAX_BYTES = PREFIX + "reply.max-bytes";
  /** The most proposals in an answer. */
  public static final String PROPOSALS_MAX = PREFIX + "proposals.max";
  /** The most commits under one write lock. */
  public static final String BATCH_SIZE = PREFIX + "batch.size";
  /** How old a node's last heartbeat may be for a placement, milliseconds; 0: as the stock scheduler judges it. */
  public static final String NODE_STALE_MS = PREFIX + "node-stale-ms";
  /** For benchmarks and tests: a class that implements {@code Engine} and decides in this JVM instead of a sidecar. */
  public static final String ENGINE_CLASS = PREFIX + "engine.class";

  /** Not a constant of YarnConfiguration in Hadoop 3.3. */
  private static final String SKIP_NODE_MULTIPLIER = "yarn.scheduler.skip.node.multiplier";
  private static final int LEAST_STALE_MS = 2000;
  private static final int KIB = 1024;
  private static final int MIB = 1024 * KIB;

  private final Mode mode;
  private final int leaseMs;
  private final int tickMs;
  private final int idleGuardMs;
  private final SidecarSettings sidecar;
  private final int frameMaxBytes;
  private final int replyMaxBytes;
  private final int proposalsMax;
  private final int batchSize;
  private final int nodeStaleMs;
  private final String engineClass;

  private ShimConfig(Settings settings) throws BadSettingException {
    this.mode = settings.oneOf(MODE, Mode.class, Mode.OBSERVE_ONLY);
    this.leaseMs = settings.number(LEASE_MS, 2000, 100, 600_000);
    this.tickMs = tickMs(settings, leaseMs);
    this.idleGuardMs = idleGuardMs(settings);
    this.sidecar = SidecarSettings.read(settings);
    this.frameMaxBytes = settings.number(FRAME_MAX_BYTES, 8 * MIB, 64 * KIB, 256 * MIB);
    this.replyMaxBytes = settings.number(REPLY_MAX_BYTES, 8 * MIB, 64 * KIB, 256 * MIB);
    this.proposalsMax = settings.number(PROPOSALS_MAX, 4096, 1, 1_000_000);
    this.batchSize = settings.number(BATCH_SIZE, 48, 1, 4096);
    this.nodeStaleMs = settings.number(NODE_STALE_MS, 0, 0, 3_600_000);
    this.engineClass = settings.text(ENGINE_CLASS, "");
  }

  private ShimConfig(ShimConfig other, Settings settings) throws BadSettingException {
    this.mode = settings.oneOf(MODE, Mode.class, Mode.OBSERVE_ONLY);
    this.leaseMs = settings.number(LEASE_MS, 2000, 100, 600_000);
    this.tickMs = tickMs(settings, leaseMs);
    this.idleGuardMs = idleGuardMs(settings);
    this.sidecar = other.sidecar;
    this.frameMaxBytes = other.frameMaxBytes;
    this.replyMaxBytes = other.replyMaxBytes;
    this.proposalsMax = other.proposalsMax;
    this.batchSize = other.batchSize;
    this.nodeStaleMs = other.nodeStaleMs;
    this.engineClass = other.engineClass;
  }

  /**
   * Reads and checks all settings.
   *
   * @throws BadSettingException naming the first one that cannot be used, and the remedy
   */
  public static ShimConfig read(Configuration conf) throws BadSettingException {
    return new ShimConfig(new Settings(conf));
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
    return new ShimConfig(this, new Settings(conf));
  }

  private static int idleGuardMs(Settings settings) throws BadSettingException {
    return settings.number(IDLE_GUARD_MS, 60_000, 0, 86_400_000);
  }

  private static int tickMs(Settings settings, int leaseMs) throws BadSettingException {
    return settings.number(TICK_MS, Math.min(10, leaseMs / 4), 1, leaseMs / 4,
        "a quarter of " + LEASE_MS + ", which is " + leaseMs);
  }

  /**
   * How old a node's last heartbeat may be, milliseconds: {@link #NODE_STALE_MS}, or what the stock scheduler of newer
   * releases does, NodeManagers' heartbeat interval times {@code yarn.scheduler.skip.node.multiplier}, and at least two
   * seconds.
   *
   * @param conf the RM's configuration
   */
  public long nodeStaleMs(Configuration conf) {
    if (nodeStaleMs > 0) {
      return nodeStaleMs;
    }
    return Math.max(LEAST_STALE_MS, heartbeatMs(conf) * conf.getInt(SKIP_NODE_MULTIPLIER, 2));
  }

  public Mode mode() {
    return mode;
  }

  public int leaseMs() {
    return leaseMs;
  }

  public int tickMs() {
    return tickMs;
  }

  /** How long an engine may place nothing although something could be placed, milliseconds; 0: for ever. */
  public int idleGuardMs() {
    return idleGuardMs;
  }

  /**
   * From one heartbeat of a NodeManager to the next, milliseconds.
   *
   * @param conf the RM's configuration
   */
  public static long heartbeatMs(Configuration conf) {
    return conf.getLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS,
        YarnConfiguration.DEFAULT_RM_NM_HEARTBEAT_INTERVAL_MS);
  }

  public SidecarSettings sidecar() {
    return sidecar;
  }

  public int frameMaxBytes() {
    return frameMaxBytes;
  }

  public int replyMaxBytes() {
    return replyMaxBytes;
  }

  public int proposalsMax() {
    return proposalsMax;
  }

  public int batchSize() {
    return batchSize;
  }

  /** The name of an engine's class in this JVM, empty for a sidecar. */
  public String engineClass() {
    return engineClass;
  }

  /** Where the sidecar's log goes unless told otherwise. */
  static File defaultLogFile() {
    String folder = System.getProperty("yarn.log.dir", System.getProperty("hadoop.log.dir", ""));
    return new File(folder.isEmpty() ? OwnFolder.PATH : folder, "treadle-sidecar.log");
  }

  /**
   * A folder for the log of an RM that has none: made once in the life of the JVM, for its user alone, under a name that
   * nobody can foresee. In the temporary folder itself anybody may have put a link by the log's name.
   */
  private static final class OwnFolder {
    private static final String PATH = made();

    private static String made() {
      try {
        return Files.createTempDirectory("treadle-log-").toString();
      } catch (IOException e) {
        // if that cannot be written either BoundedLog says so
        return System.getProperty("user.dir");
      }
    }
  }
}

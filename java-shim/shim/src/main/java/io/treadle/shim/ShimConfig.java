// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import io.treadle.shim.wire.ProposalFrame;
import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
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
  /** How long a request may wait next to idle resources, ms; 0: no limit. Read again by {@code -refreshQueues}. */
  public static final String STARVATION_MS = PREFIX + "starvation-ms";
  /** How long the engine may hold it back on purpose, milliseconds. Read again by {@code -refreshQueues}. */
  public static final String STARVATION_HOLD_MS = PREFIX + "starvation-hold-ms";
  /** {@code managed}, the default: the shim starts the sidecar, as a child of the RM; or {@code external}. */
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

  /** Those that {@code -refreshQueues} takes over. */
  private static final List<String> REFRESHED =
      Collections.unmodifiableList(Arrays.asList(MODE, LEASE_MS, TICK_MS, STARVATION_MS, STARVATION_HOLD_MS));

  /** Not constants of YarnConfiguration in Hadoop 3.3. */
  private static final String SKIP_NODE_MULTIPLIER = "yarn.scheduler.skip.node.multiplier";
  private static final String HEARTBEATS = "yarn.resourcemanager.nodemanagers.heartbeat-interval-";
  private static final int LEAST_STALE_MS = 2000;
  private static final int DAY_MS = 86_400_000;
  private static final int KIB = 1024;
  private static final int MIB = 1024 * KIB;

  public final Mode mode;
  public final int leaseMs;
  public final int tickMs;
  public final int starvationMs;
  public final int starvationHoldMs;
  /** Whether the sidecar is started externally (systemd, a container); the shim connects to it. */
  public final boolean external;
  public final String pythonCommand;
  public final String configFile;
  public final File logFile;
  public final int startTimeoutMs;
  public final String connectionFile;
  public final String sidecarUser;
  public final int frameMaxBytes;
  /** The longest answer, bytes: no other has so many proposals and so long a status. */
  public final int replyMaxBytes;
  public final int proposalsMax;
  public final int batchSize;
  private final int nodeStaleMs;
  public final String engineClass;
  /** Treadle's keys as they were set when the scheduler was made; and those that there are. */
  private final Configuration atStart;
  private final TreeSet<String> known;

  private ShimConfig(Configuration own, Configuration atStart) {
    this.atStart = atStart;
    Reader settings = new Reader(own);
    known = settings.keys;
    String modeText = settings.oneOf(MODE, "observe_only", "enforce", "observe_only", "off");
    mode = Mode.valueOf(modeText.toUpperCase(Locale.ROOT));
    leaseMs = settings.number(LEASE_MS, 2000, 100, 600_000);
    tickMs = settings.number(TICK_MS, Math.min(10, leaseMs / 4), 1, leaseMs / 4,
        "a quarter of " + LEASE_MS + ", which is " + leaseMs);
    starvationMs = settings.number(STARVATION_MS, 600_000, 0, DAY_MS);
    starvationHoldMs = settings.number(STARVATION_HOLD_MS, 3_600_000, 0, DAY_MS);
    external = settings.oneOf(SIDECAR, "managed", "managed", "external").equals("external");
    pythonCommand = settings.text(PYTHON_COMMAND, "treadle");
    configFile = settings.text(CONFIG_FILE, "");
    String log = settings.text(SIDECAR_LOG_FILE, "");
    logFile = log.isEmpty() ? defaultLogFile() : new File(log);
    startTimeoutMs = settings.number(SIDECAR_START_TIMEOUT_MS, 300_000, 100, 3_600_000);
    connectionFile = settings.text(CONNECTION_FILE, "");
    sidecarUser = settings.text(SIDECAR_USER, "");
    frameMaxBytes = settings.number(FRAME_MAX_BYTES, 8 * MIB, 64 * KIB, 256 * MIB);
    proposalsMax = settings.number(PROPOSALS_MAX, 4096, 1, 1_000_000);
    replyMaxBytes = ProposalFrame.bytesMax(proposalsMax);
    batchSize = settings.number(BATCH_SIZE, 48, 1, 4096);
    nodeStaleMs = settings.number(NODE_STALE_MS, 0, 0, 3_600_000);
    engineClass = settings.text(ENGINE_CLASS, "");
    if (external && connectionFile.isEmpty()) {
      throw new IllegalArgumentException(CONNECTION_FILE + " is not set, but " + SIDECAR
          + " is 'external': set it to the path given to 'treadle sidecar run --external --connection-file'");
    }
    if (!external && !sidecarUser.isEmpty()) {
      throw new IllegalArgumentException(SIDECAR_USER + " is '" + sidecarUser + "', but " + SIDECAR
          + " is 'managed': such a sidecar runs as the ResourceManager's user. Remove the one or set the other to"
          + " 'external'");
    }
  }

  /**
   * Reads and checks all settings.
   *
   * @throws IllegalArgumentException naming the first one that cannot be used, and the remedy
   */
  public static ShimConfig read(Configuration conf) {
    Configuration own = own(conf);
    return new ShimConfig(own, own);
  }

  private static Configuration own(Configuration conf) {
    Configuration own = new Configuration(false);
    conf.getPropsWithPrefix(PREFIX).keySet().forEach(key -> own.set(PREFIX + key, conf.get(PREFIX + key)));
    return own;
  }

  /** What holds after settings at start-up that cannot be used: everything at its default, and mode {@code off}. */
  public static ShimConfig off(Configuration conf) {
    Configuration off = new Configuration(false);
    off.set(MODE, Mode.OFF.text());
    return new ShimConfig(off, own(conf));
  }

  /**
   * These settings with mode, lease, tick and bounds of starvation of {@code conf}: what {@code -refreshQueues} takes
   * over. Other keys are not looked at.
   *
   * @throws IllegalArgumentException naming the first of them that cannot be used, and the remedy
   */
  public ShimConfig refreshed(Configuration conf) {
    Configuration own = own(conf);
    known.stream().filter(key -> !REFRESHED.contains(key)).forEach(key -> own.set(key, atStart.get(key, "")));
    return new ShimConfig(own, atStart);
  }

  /**
   * A sentence for each key of a configuration that does nothing, with what to do, in the order of the keys: those that
   * are not Treadle's, and those that were changed although they are read at start-up only.
   */
  public List<String> ignored(Configuration conf) {
    List<String> sentences = new ArrayList<>();
    for (String suffix : new TreeSet<>(conf.getPropsWithPrefix(PREFIX).keySet())) {
      if (!known.contains(PREFIX + suffix)) {
        sentences.add(PREFIX + suffix + " is not a key of Treadle and has no effect: correct it in treadle-site.xml or"
            + " yarn-site.xml; there are " + String.join(", ", known).replace(PREFIX, ""));
      }
    }
    for (String key : known) {
      String now = conf.getTrimmed(key, "");
      String before = atStart.getTrimmed(key, "");
      if (!REFRESHED.contains(key) && !now.equals(before)) {
        sentences.add(key + " is now '" + now + "', but the ResourceManager goes on with '" + before
            + "': restart it to take that over");
      }
    }
    return sentences;
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

  private static long heartbeatMs(Configuration conf) {
    long usualMs = conf.getLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS,
        YarnConfiguration.DEFAULT_RM_NM_HEARTBEAT_INTERVAL_MS);
    return conf.getBoolean(HEARTBEATS + "scaling-enable", false)
        ? Math.max(usualMs, conf.getLong(HEARTBEATS + "max-ms", usualMs)) : usualMs;
  }

  /** The default log file of the sidecar; scripts that start an RM set at least one of the properties. */
  private static File defaultLogFile() {
    String folder = System.getProperty("hadoop.log.dir", System.getProperty("user.dir"));
    return new File(System.getProperty("yarn.log.dir", folder), "treadle-sidecar.log");
  }

  /** What Treadle may do: {@code yarn.scheduler.treadle.mode}. */
  public enum Mode {
    /** The engine's proposals are committed while it holds the lease. */
    ENFORCE,
    /** The engine's proposals are compared with the stock scheduler's placements; nothing is committed. */
    OBSERVE_ONLY,
    /** Nothing is sent and no sidecar runs: the stock scheduler. */
    OFF;

    /** As written in yarn-site.xml. */
    public String text() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** Reads single values; reports an invalid one in words for an administrator. */
  private static final class Reader {
    private static final String REMEDY =
        ". Correct it in treadle-site.xml or yarn-site.xml, or remove it to use the default, ";

    private final Configuration conf;
    private final TreeSet<String> keys = new TreeSet<>();

    Reader(Configuration conf) {
      this.conf = conf;
    }

    String text(String key, String standard) {
      keys.add(key);
      String value = conf.getTrimmed(key, "");
      return value.isEmpty() ? standard : value;
    }

    int number(String key, int standard, int least, int most) {
      return number(key, standard, least, most, null);
    }

    /** A whole number in [least, most]; {@code mostIs} explains an upper bound that is not constant. */
    int number(String key, int standard, int least, int most, String mostIs) {
      String value = text(key, "");
      if (value.isEmpty()) {
        return standard;
      }
      try {
        long number = Long.parseLong(value);
        if (number >= least && number <= most) {
          return (int) number;
        }
      } catch (NumberFormatException e) {
        // said below, with what is allowed
      }
      throw bad(key, value, "whole numbers from " + least + " to " + most
          + (mostIs == null ? "" : " (" + mostIs + ")"), standard);
    }

    String oneOf(String key, String standard, String... allowed) {
      String value = text(key, standard);
      if (Arrays.asList(allowed).contains(value)) {
        return value;
      }
      throw bad(key, value, String.join(", ", allowed), standard);
    }

    private static IllegalArgumentException bad(String key, String value, String allowed, Object standard) {
      return new IllegalArgumentException(key + " is '" + value + "'; allowed are " + allowed + REMEDY + standard);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import io.treadle.shim.Log;
import io.treadle.shim.ShimConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.apache.hadoop.util.StringUtils;
import org.apache.hadoop.util.Time;

/**
 * A sidecar that is the RM's child. Started when the link wants an engine, started again with growing pauses when it
 * has ended, replaced when it is alive but fails, ended with the scheduler. There are never two: another is started
 * only when the last is dead.
 */
public final class ManagedSidecar implements EngineSource {
  /** A sidecar that fails so often in a row, each time after another connection, hangs: it is replaced. */
  static final int FAILURES = 3;
  private static final Log LOG = new Log(ManagedSidecar.class);
  /** What sidecars listen on; the JVM's own idea of loopback may be IPv6. */
  private static final String HOST = "127.0.0.1";

  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int SECRET_BYTES = 32;
  private static final long FIRST_PAUSE_MS = 200;
  private static final long LONGEST_PAUSE_MS = 600_000;
  /** A sidecar that answers after a run as long as this makes up for earlier ends. */
  private static final long STEADY_MS = 60_000;

  private final ShimConfig config;
  private final Runnable onStart;
  private final LongSupplier clockMs;

  private SidecarProcess process;
  private byte[] secret;
  private long startedMs;
  private boolean announced;
  private int failures;
  /** Ends without a steady run between them, and until when nothing is started after the last one. */
  private int ends;
  private long notBeforeMs = Long.MIN_VALUE;

  /** A sidecar that is not started yet; {@code onStart} is called with each start. */
  public ManagedSidecar(ShimConfig config, Runnable onStart) {
    this(config, onStart, Time::monotonicNow);
  }

  ManagedSidecar(ShimConfig config, Runnable onStart, LongSupplier clockMs) {
    this.config = config;
    this.onStart = onStart;
    this.clockMs = clockMs;
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    if (process != null && !process.isAlive()) {
      throw ended("Treadle's sidecar is not running: " + process.epitaph());
    }
    if (process == null) {
      if (clockMs.getAsLong() < notBeforeMs) {
        return null;
      }
      start();
    }
    SidecarProcess.Outcome outcome = process.outcome();
    if (outcome == null) {
      if (clockMs.getAsLong() - startedMs > config.startTimeoutMs) {
        throw replaced("it was not ready after " + config.startTimeoutMs + " ms ("
            + ShimConfig.SIDECAR_START_TIMEOUT_MS + ")");
      }
      return null;
    }
    if (outcome.isError()) {
      process.end();
      throw replaced(outcome.text);
    }
    if (!announced) {
      announced = true;
      LOG.info("Treadle's sidecar {} is ready on port {}", outcome.text, outcome.port);
    }
    return new Py4jEngine(new Py4jEngine.Endpoint(InetAddress.getByName(HOST), outcome.port, secret, ""), timeoutMs,
        config.frameMaxBytes, config.replyMaxBytes);
  }

  private void start() throws IOException {
    List<String> command = new ArrayList<>(Arrays.asList(config.pythonCommand, "sidecar", "run", "--managed"));
    if (!config.configFile.isEmpty()) {
      command.addAll(Arrays.asList("--config", config.configFile));
    }
    secret = new byte[SECRET_BYTES];
    RANDOM.nextBytes(secret);
    startedMs = clockMs.getAsLong();
    announced = false;
    failures = 0;
    try {
      process = new SidecarProcess(command, greeting(), config.logFile);
    } catch (IOException e) {
      throw ended("Treadle's sidecar cannot be started: " + e.getMessage() + ". Set " + ShimConfig.PYTHON_COMMAND
          + " to the path of the executable 'treadle' and restart the ResourceManager");
    }
    onStart.run();
    LOG.info("Started Treadle's sidecar: {}; its log is {}", command, config.logFile);
  }

  private String greeting() {
    return JsonNodeFactory.instance.objectNode().put("handshake", Handshake.VERSION)
        .put("secret", StringUtils.byteToHexString(secret)).toString();
  }

  /** Notes that the process has gone, or never started: the next one is started after a pause that doubles. */
  private IOException ended(String reason) {
    process = null;
    long pauseMs = Math.min(FIRST_PAUSE_MS << Math.min(ends, 16), LONGEST_PAUSE_MS);
    ends++;
    notBeforeMs = clockMs.getAsLong() + pauseMs;
    String advice = pauseMs < STEADY_MS ? "" : ". It failed " + ends + " times in a row: trying again in "
        + TimeUnit.MILLISECONDS.toSeconds(pauseMs) + " s, or after 'yarn rmadmin -refreshQueues'";
    return new IOException(reason + advice);
  }

  /** Kills the process; if it will not die, it stays the one and only, and the next attempt looks at it again. */
  private IOException replaced(String reason) {
    process.kill();
    String text = "Treadle's sidecar does not work: " + reason + ". Its log is " + config.logFile;
    return process.isAlive() ? new IOException(text) : ended(text);
  }

  @Override
  public void answered() {
    failures = 0;
    if (clockMs.getAsLong() - startedMs >= STEADY_MS) {
      ends = 0;
    }
  }

  @Override
  public void failed() {
    failures++;
    if (failures >= FAILURES && process != null && process.isAlive()) {
      LOG.warn("{}; starting another", replaced("it failed " + failures + " times in a row").getMessage());
    }
  }

  @Override
  public void retry() {
    ends = 0;
    notBeforeMs = Long.MIN_VALUE;
  }

  @Override
  public void stop() {
    if (process != null) {
      process.end();
      if (!process.isAlive()) {
        process = null;
      }
    }
  }
}

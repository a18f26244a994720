// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.Log;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.config.SidecarSettings;
import io.treadle.shim.link.Engine;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.Py4jEngine;
import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

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
  private static final byte[] HOST = {127, 0, 0, 1};

  private final SidecarSettings settings;
  private final ShimConfig config;
  private final Runnable onStart;
  private final Restarts restarts;

  private SidecarProcess process;
  private byte[] secret;
  private long startedMs;
  private boolean announced;
  private int failures;

  /** A sidecar that is not started yet; {@code onStart} is called with each start. */
  public ManagedSidecar(ShimConfig config, Runnable onStart) {
    this(config, onStart, new Restarts());
  }

  ManagedSidecar(ShimConfig config, Runnable onStart, Restarts restarts) {
    this.settings = config.sidecar;
    this.config = config;
    this.onStart = onStart;
    this.restarts = restarts;
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    if (process != null && !process.isAlive()) {
      throw ended("Treadle's sidecar is not running: " + process.epitaph());
    }
    if (process == null) {
      if (!restarts.mayStart(nowMs())) {
        return null;
      }
      start();
    }
    SidecarMessage outcome = process.outcome();
    if (outcome == null) {
      if (nowMs() - startedMs > settings.startTimeoutMs) {
        throw replaced("it was not ready after " + settings.startTimeoutMs + " ms ("
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
    return new Py4jEngine(new Py4jEngine.Endpoint(InetAddress.getByAddress(HOST), outcome.port, secret, ""), timeoutMs,
        config.frameMaxBytes, config.replyMaxBytes);
  }

  private void start() throws IOException {
    List<String> command = new ArrayList<>();
    command.add(settings.pythonCommand);
    command.add("sidecar");
    command.add("--managed");
    if (!settings.configFile.isEmpty()) {
      command.add("--config");
      command.add(settings.configFile);
    }
    secret = SidecarSecret.random();
    startedMs = nowMs();
    restarts.started(startedMs);
    announced = false;
    failures = 0;
    try {
      process = new SidecarProcess(command, greeting(), settings.logFile);
    } catch (IOException e) {
      throw ended("Treadle's sidecar cannot be started: " + e.getMessage() + ". Set " + ShimConfig.PYTHON_COMMAND
          + " to the path of the executable 'treadle' and restart the ResourceManager");
    }
    onStart.run();
    LOG.info("Started Treadle's sidecar: {}; its log is {}", command, settings.logFile);
  }

  private String greeting() throws IOException {
    ObjectMapper json = new ObjectMapper();
    ObjectNode greeting = json.createObjectNode();
    greeting.put("handshake", Py4jEngine.HANDSHAKE);
    greeting.put("secret", SidecarSecret.text(secret));
    return json.writeValueAsString(greeting);
  }

  /** Notes that the process has gone, or never started, and logs it. */
  private IOException ended(String reason) {
    process = null;
    boolean rest = restarts.ended(nowMs());
    String advice = rest ? ". It failed " + Restarts.ENDS + " times in a row: trying again in "
        + TimeUnit.MILLISECONDS.toMinutes(Restarts.REST_MS) + " minutes, or after 'yarn rmadmin -refreshQueues'" : "";
    return new IOException(reason + advice);
  }

  /** Kills the process; if it will not die, it stays the one and only, and the next attempt looks at it again. */
  private IOException replaced(String reason) {
    process.kill();
    String text = "Treadle's sidecar does not work: " + reason + ". Its log is " + settings.logFile;
    return process.isAlive() ? new IOException(text) : ended(text);
  }

  @Override
  public void answered() {
    failures = 0;
    restarts.answered(nowMs());
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
    restarts.reset();
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

  private static long nowMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }
}

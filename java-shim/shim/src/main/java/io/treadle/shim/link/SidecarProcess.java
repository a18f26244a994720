// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.ShimConfig;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.io.IOUtils;

/**
 * One run of a managed sidecar: a child process that gets its secret as the first line of its standard input, reports
 * on its standard output when it is ready, and whose standard error goes to a log. Its standard input stays open for as
 * long as the RM runs: when it ends the sidecar ends, even after a SIGKILL of the RM.
 */
final class SidecarProcess {
  private static final Log LOG = new Log(SidecarProcess.class);
  private static final int LINE_BYTES = 1 << 16;
  private static final int LAST_WORDS_BYTES = 300;
  private static final long GOODBYE_MS = 1000;
  private static final long KILLED_MS = 5000;
  /** What Java adds to the number of a signal that ended a process. */
  private static final int SIGNALLED = 128;
  private static final int SIGKILL = 9;
  private static final int SIGTERM = 15;

  private final Process process;
  private final File log;
  /** How long the log was before. */
  private final long logBegin;
  private final ByteArrayOutputStream line = new ByteArrayOutputStream();
  private Outcome outcome;

  /**
   * Starts a sidecar.
   *
   * @param command the executable and its arguments; no secret among them
   * @param greeting the line for its standard input, without its end
   * @param log what its standard error is appended to; the sidecar itself keeps it short
   * @throws IOException if there is no such executable, or it may not be run
   */
  SidecarProcess(List<String> command, String greeting, File log) throws IOException {
    this.log = log;
    this.logBegin = log.length();
    process = new ProcessBuilder(command).redirectError(appendTo(log)).start();
    try {
      OutputStream input = process.getOutputStream();
      input.write((greeting + "\n").getBytes(StandardCharsets.UTF_8));
      input.flush();
    } catch (IOException e) {
      // It ended before it read: its exit code and last words say more than a broken pipe.
    }
  }

  private static Redirect appendTo(File log) {
    try {
      Files.createDirectories(log.getAbsoluteFile().getParentFile().toPath());
      // a link by the log's name might lead to any file of the RM's user
      Files.newOutputStream(log.toPath(), StandardOpenOption.CREATE, StandardOpenOption.WRITE,
          StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS).close();
      return Redirect.appendTo(log);
    } catch (IOException e) {
      LOG.warn("Treadle's sidecar has no log, cannot write {}: {}. Set {} to a writable path in a folder of the RM's"
          + " own", log, e.toString(), ShimConfig.SIDECAR_LOG_FILE);
      return Redirect.appendTo(new File("/dev/null"));
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** The report of its start, ready or an error; null before it. Does not wait. */
  Outcome outcome() {
    try {
      InputStream output = process.getInputStream();
      // a bound, since a broken sidecar may write endlessly
      for (int bytes = 0; outcome == null && bytes < LINE_BYTES && output.available() > 0; bytes++) {
        int next = output.read();
        if (next == '\n') {
          outcome = Outcome.parse(new String(line.toByteArray(), StandardCharsets.UTF_8));
          line.reset();
        } else if (line.size() < LINE_BYTES) {
          line.write(next);
        }
      }
    } catch (IOException e) {
      // it was killed
    }
    return outcome;
  }

  /** How it ended, in words. Only after its end. */
  String epitaph() {
    Outcome said = outcome();
    if (said != null && said.isError()) {
      return said.text;
    }
    int code = process.exitValue();
    if (code == SIGNALLED + SIGKILL) {
      // The last line of its log is of before, and no reason.
      return "SIGKILL ended it, possibly the kernel's OOM killer (see the host's log)";
    }
    if (code == SIGNALLED + SIGTERM) {
      return "SIGTERM ended it";
    }
    String lastWords = lastWords();
    return "it ended with exit code " + code + (lastWords.isEmpty() ? "" : "; its log ends with: " + lastWords);
  }

  private String lastWords() {
    try (RandomAccessFile file = new RandomAccessFile(log, "r")) {
      long from = Math.max(logBegin, file.length() - LAST_WORDS_BYTES);
      byte[] bytes = new byte[(int) Math.max(0, file.length() - from)];
      file.seek(from);
      file.readFully(bytes);
      String end = new String(bytes, StandardCharsets.UTF_8).trim();
      return end.substring(end.lastIndexOf('\n') + 1);
    } catch (IOException e) {
      return "";
    }
  }

  /** Asks it to end by closing its standard input, and kills it if it does not. Waits a few seconds at most. */
  void end() {
    IOUtils.closeStream(process.getOutputStream());
    if (!waitFor(GOODBYE_MS)) {
      kill();
    }
  }

  /** Kills it, stopped or not. Waits a few seconds at most: {@link #isAlive} is false once it is gone. */
  void kill() {
    process.destroyForcibly();
    waitFor(KILLED_MS);
  }

  private boolean waitFor(long timeoutMs) {
    try {
      return process.waitFor(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** What a sidecar reports of its start, in a line of its standard output. Immutable. */
  static final class Outcome {
    /** The version of a ready sidecar, else why it cannot start. */
    final String text;
    /** Where a ready sidecar listens on loopback, else 0. */
    final int port;

    private Outcome(String text, int port) {
      this.text = Printable.brief(text);
      this.port = port;
    }

    /** Reads {@code {"ready": true, "port": n, ...}} or {@code {"error": text}}; null for all else. */
    static Outcome parse(String line) {
      JsonNode root;
      try {
        root = Json.object(line, "a line");
      } catch (IOException e) {
        return null;
      }
      if (root.path("error").isTextual()) {
        return new Outcome(root.path("error").asText(), 0);
      }
      if (!root.path("ready").asBoolean(false)) {
        return null;
      }
      int port = root.path("port").asInt(0);
      return port >= 1 && port <= 65535 ? new Outcome(root.path("version").asText("?"), port)
          : new Outcome("it is ready on no port: " + line, 0);
    }

    /** Whether the sidecar cannot start. */
    boolean isError() {
      return port == 0;
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.config.ShimConfig;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.Uninterruptibles;

/**
 * One run of a managed sidecar: a child process that gets its secret as the first line of its standard input, reports
 * on its standard output when it is ready, and whose standard error goes to a log. Its standard input stays open for as
 * long as the RM runs: when it ends the sidecar ends, even after a SIGKILL of the RM.
 */
final class SidecarProcess {
  private static final Log LOG = new Log(SidecarProcess.class);
  private static final int LINE_BYTES = 1 << 16;
  private static final int LAST_WORDS_BYTES = 300;
  private static final long LOG_BYTES = 16L << 20;
  private static final long GOODBYE_MS = 1000;
  private static final long KILLED_MS = 5000;
  private static final long LAST_OUTPUT_MS = 3000;
  /** What Java adds to the number of a signal that ended a process. */
  private static final int SIGNALLED = 128;
  private static final int SIGKILL = 9;
  private static final int SIGTERM = 15;

  private final Process process;
  private final Thread output;
  private final Thread errors;
  private volatile Outcome outcome;
  private volatile String lastWords = "";

  /**
   * Starts a sidecar.
   *
   * @param command the executable and its arguments; no secret among them
   * @param greeting the line for its standard input, without its end
   * @param log where its standard error goes
   * @throws IOException if there is no such executable, or it may not be run
   */
  SidecarProcess(List<String> command, String greeting, File log) throws IOException {
    process = new ProcessBuilder(command).start();
    boolean watched = false;
    try {
      output = daemon("treadle-sidecar-output", () -> readMessages(process.getInputStream()));
      errors = daemon("treadle-sidecar-errors", () -> copyErrors(process.getErrorStream(), log));
      watched = true;
    } finally {
      if (!watched) {
        // no thread could be made: nobody would know of this process, and another would be started beside it
        process.destroyForcibly();
      }
    }
    try {
      OutputStream input = process.getOutputStream();
      input.write((greeting + "\n").getBytes(StandardCharsets.UTF_8));
      input.flush();
    } catch (IOException e) {
      // It ended before it read: its exit code and last words say more than a broken pipe.
    }
  }

  private static Thread daemon(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    // the RM's own handler of what a thread does not catch ends the RM
    thread.setUncaughtExceptionHandler((ended, thrown) -> LOG.warn("{} ended", name, thrown));
    thread.start();
    return thread;
  }

  private void readMessages(InputStream stream) {
    try (InputStream in = new BufferedInputStream(stream)) {
      ByteArrayOutputStream line = new ByteArrayOutputStream();
      for (int next = in.read(); next >= 0; next = in.read()) {
        if (next == '\n') {
          heard(new String(line.toByteArray(), StandardCharsets.UTF_8));
          line.reset();
        } else if (line.size() < LINE_BYTES) {
          line.write(next);
        }
      }
    } catch (IOException e) {
      // it has ended
    }
  }

  /** Takes the first message; whatever else it says, the RM neither reads nor logs. */
  private void heard(String line) {
    if (outcome == null) {
      outcome = Outcome.parse(line);
    }
  }

  private void copyErrors(InputStream stream, File file) {
    try (InputStream in = stream; BoundedLog log = new BoundedLog(file, LOG_BYTES)) {
      byte[] bytes = new byte[4096];
      for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
        log.write(bytes, count);
        int from = Math.max(0, count - LAST_WORDS_BYTES);
        String end = new String(bytes, from, count - from, StandardCharsets.UTF_8).trim();
        if (!end.isEmpty()) {
          lastWords = end.substring(end.lastIndexOf('\n') + 1);
        }
      }
    } catch (IOException e) {
      // it has ended
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** What it said about its start, ready or an error; null as long as it has said neither. */
  Outcome outcome() {
    return outcome;
  }

  /** How it ended, in words. Only after its end. */
  String epitaph() {
    Uninterruptibles.joinUninterruptibly(output, LAST_OUTPUT_MS, TimeUnit.MILLISECONDS);
    Uninterruptibles.joinUninterruptibly(errors, LAST_OUTPUT_MS, TimeUnit.MILLISECONDS);
    Outcome said = outcome;
    if (said != null && said.isError()) {
      return said.text;
    }
    int code = process.exitValue();
    if (code == SIGNALLED + SIGKILL) {
      // The last line of its log is of before, and no reason.
      return "SIGKILL ended it: somebody's, or the kernel's for want of memory (the host's log says so)";
    }
    if (code == SIGNALLED + SIGTERM) {
      return "SIGTERM ended it";
    }
    return "it ended with exit code " + code + (lastWords.isEmpty() ? "" : "; its log ends with: " + lastWords);
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

  /**
   * A log file that does not grow beyond a bound: when it is full it becomes {@code FILE.1}, in place of an older one.
   * A file that cannot be written, or is a link to another, is said so once, and what should go there is lost. Used by
   * one thread.
   */
  static final class BoundedLog implements AutoCloseable {
    private final File file;
    private final long maxBytes;
    private OutputStream out;
    private long length;
    private boolean broken;

    /** A log that is opened, and appended to, at the first write. */
    BoundedLog(File file, long maxBytes) {
      this.file = file;
      this.maxBytes = maxBytes;
    }

    void write(byte[] bytes, int count) {
      if (broken) {
        return;
      }
      try {
        if (out == null) {
          open();
        }
        if (length + count > maxBytes) {
          rotate();
        }
        out.write(bytes, 0, count);
        length += count;
      } catch (IOException e) {
        broken = true;
        LOG.warn("Treadle's sidecar has no log, cannot write {}: {}. Set {} to a writable path in a folder of the RM's"
            + " own", file, e.getMessage(), ShimConfig.SIDECAR_LOG_FILE);
      }
    }

    private void open() throws IOException {
      File folder = file.getAbsoluteFile().getParentFile();
      if (folder != null) {
        Files.createDirectories(folder.toPath());
      }
      if (Files.isSymbolicLink(file.toPath())) {
        throw new IOException("it is a symbolic link, which might lead to any file of the RM's user");
      }
      out = Files.newOutputStream(file.toPath(), StandardOpenOption.CREATE, StandardOpenOption.WRITE,
          StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS);
      length = file.length();
    }

    private void rotate() throws IOException {
      out.close();
      Files.move(file.toPath(), new File(file.getPath() + ".1").toPath(), StandardCopyOption.REPLACE_EXISTING);
      open();
    }

    @Override
    public void close() {
      IOUtils.closeStream(out);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The managed sidecar with small scripts in its place. */
@Timeout(120)
class ManagedSidecarTest {
  private static final String READY = "echo '{\"ready\": true, \"port\": 9, \"pid\": 1, \"version\": \"0\"}'\n";

  private static final int PATIENT_MS = 20_000;

  @TempDir
  Path folder;
  private final Configuration conf = new Configuration(false);
  private final AtomicInteger starts = new AtomicInteger();
  private final AtomicLong skippedMs = new AtomicLong();
  private ManagedSidecar sidecar;

  @BeforeEach
  void logInTheFolder() {
    conf.set(ShimConfig.SIDECAR_LOG_FILE, folder.resolve("sidecar.log").toString());
  }

  @AfterEach
  void stop() {
    if (sidecar != null) {
      sidecar.stop();
    }
  }

  private void makeSidecar() throws Exception {
    ShimConfig config = ShimConfig.read(conf);
    sidecar = new ManagedSidecar(config, starts::incrementAndGet,
        () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()) + skippedMs.get());
  }

  /** A script that first notes its process id, in a line of its own for each start. */
  private void script(String lines) throws Exception {
    Path file = folder.resolve("fake treadle");
    Files.write(file, ("#!/bin/sh\necho $$ >> '" + folder + "/pids'\n" + lines).getBytes());
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwx------"));
    conf.set(ShimConfig.PYTHON_COMMAND, file.toString());
    makeSidecar();
  }

  private String content(String file) throws IOException {
    return new String(Files.readAllBytes(folder.resolve(file))).trim();
  }

  private List<String> pids() throws IOException {
    return Files.readAllLines(folder.resolve("pids"));
  }

  private static boolean runs(String pid) {
    return Files.exists(Paths.get("/proc", pid));
  }

  private Engine engine() throws Exception {
    Engine[] engine = new Engine[1];
    Await.until("the sidecar is ready", () -> {
      engine[0] = sidecar.connect(PATIENT_MS);
      return engine[0] != null;
    });
    return engine[0];
  }

  /** The next failure. */
  private String failure() throws Exception {
    String[] message = new String[1];
    Await.until("it fails", () -> {
      try {
        Engine engine = sidecar.connect(PATIENT_MS);
        if (engine != null) {
          engine.close();
        }
      } catch (IOException e) {
        message[0] = e.getMessage();
      }
      return message[0] != null;
    });
    return message[0];
  }

  @Test
  void itsSecretComesThroughItsStandardInput() throws Exception {
    conf.set(ShimConfig.CONFIG_FILE, "/etc/treadle.yaml");
    script("echo \"$@\" > '" + folder + "/arguments'; env > '" + folder + "/environment'\n"
        + "read line; echo \"$line\" > '" + folder + "/greeting'\n" + READY
        + "cat > /dev/null; echo bye > '" + folder + "/bye'\n");
    try (Engine engine = engine()) {
      assertNotNull(engine);
    }
    JsonNode greeting = new ObjectMapper().readTree(folder.resolve("greeting").toFile());
    String secret = greeting.path("secret").asText();
    assertTrue(secret.matches("[0-9a-f]{64}"), secret);
    assertEquals(1, greeting.path("handshake").asInt());
    assertEquals("sidecar run --managed --config /etc/treadle.yaml", content("arguments"));
    assertFalse(content("environment").contains(secret));
    sidecar.stop();
    assertEquals("bye", content("bye"));
    assertFalse(runs(pids().get(0)));
    assertEquals(1, starts.get());
  }

  @Test
  void whoeverHasTakenItsPortGetsNeitherSecretNorFrame() throws Exception {
    byte[] frame = "jobs, users and keys of all tenants".getBytes(StandardCharsets.UTF_8);
    try (Squatter squatter = new Squatter()) {
      script("read line; echo \"$line\" > '" + folder + "/greeting'\n"
          + READY.replace("\"port\": 9", "\"port\": " + squatter.port()) + "exec sleep 1000\n");
      try (Engine engine = engine()) {
        assertThrows(IOException.class, () -> engine.decide(frame));
      }
      String heard = squatter.heard();
      assertTrue(heard.startsWith("TRDH"), heard);
      assertFalse(heard.contains(Base64.getEncoder().encodeToString(frame)), heard);
      String secret = new ObjectMapper().readTree(folder.resolve("greeting").toFile()).path("secret").asText();
      assertEquals(64, secret.length());
      assertFalse(heard.contains(secret), heard);
    }
  }

  @Test
  void oneThatEndsAtOnceIsStartedAgainAfterAPause() throws Exception {
    script("echo first >&2; echo 'treadle: no numpy' >&2; exit 3\n");
    String reason = failure();
    assertTrue(reason.contains("exit code 3"), reason);
    assertTrue(reason.contains("treadle: no numpy"), reason);
    Await.until("it is started again", () -> {
      try {
        sidecar.connect(PATIENT_MS);
      } catch (IOException e) {
        assertEquals(reason, e.getMessage());
      }
      return starts.get() == 3;
    });
    assertTrue(content("sidecar.log").startsWith("first\ntreadle: no numpy\nfirst"), content("sidecar.log"));
  }

  /** A user who may make a link by the log's name would else choose a file of the RM's user that is appended to. */
  @Test
  void aLogThatIsALinkOrCannotBeWrittenIsLostAndItStarts() throws Exception {
    Path other = Files.write(folder.resolve("precious"), "kept".getBytes(StandardCharsets.UTF_8));
    for (Path log : new Path[] {Files.createSymbolicLink(folder.resolve("link"), other),
        Files.createSymbolicLink(folder.resolve("other"), folder.resolve("made-by-the-rm")), folder,
        other.resolve("x")}) {
      conf.set(ShimConfig.SIDECAR_LOG_FILE, log.toString());
      script("echo lost >&2; exit 3\n");
      String reason = failure();
      assertTrue(reason.contains("exit code 3"), reason);
      assertFalse(reason.contains("lost"), reason);
    }
    assertEquals("kept", content("precious"));
    assertFalse(Files.exists(folder.resolve("made-by-the-rm")));
  }

  /** A folder is made where there is none; the last words are those of this run. */
  @Test
  void aLogIsAppendedTo() throws Exception {
    conf.set(ShimConfig.SIDECAR_LOG_FILE, folder.resolve("deeper/sidecar.log").toString());
    script("echo first >&2; exit 3\n");
    assertTrue(failure().contains("its log ends with: first"));
    script("exit 3\n");
    assertFalse(failure().contains("first"));
    assertEquals("first", content("deeper/sidecar.log"));
  }

  @Test
  void oneThatWasKilledReportsItAndGivesNoLineOfItsLogAsTheReason() throws Exception {
    for (String signal : new String[] {"KILL", "TERM"}) {
      script("echo '2026-11-22 10:00:00,000 INFO treadle: settings read again' >&2; kill -" + signal + " $$\n");
      String reason = failure();
      assertTrue(reason.contains("SIG" + signal + " ended it"), reason);
      assertFalse(reason.contains("INFO"), reason);
    }
  }

  /** Each pause is twice as long as the last, up to ten minutes. */
  @Test
  void aCrashLoopIsStartedEverMoreSeldom() throws Exception {
    script("exit 3\n");
    failure();
    long pauseMs = 200;
    for (int ends = 1; pauseMs < 600_000; ends++, pauseMs = Math.min(2 * pauseMs, 600_000)) {
      skippedMs.addAndGet(pauseMs);
      String reason = failure();
      assertEquals(ends + 1, starts.get());
      long next = Math.min(2 * pauseMs, 600_000);
      assertEquals(next >= 60_000, reason.contains("trying again in " + next / 1000 + " s"), reason);
    }
    assertNull(sidecar.connect(PATIENT_MS), "it rests");
    sidecar.retry();
    failure();
    assertEquals(14, starts.get(), "an administrator ends the rest");
  }

  @Test
  void aSteadyRunMakesUpForEarlierEnds() throws Exception {
    script("if [ $(wc -l < '" + folder + "/pids') = 9 ]; then " + READY + "exec sleep 1000; fi; exit 3\n");
    for (int i = 0; i < 8; i++) {
      failure();
      skippedMs.addAndGet(600_000);
    }
    engine().close();
    skippedMs.addAndGet(60_000);
    sidecar.answered();
    Process kill = new ProcessBuilder("kill", "-9", pids().get(8)).start();
    assertEquals(0, kill.waitFor());
    assertFalse(failure().contains("times in a row"));
  }

  @Test
  void whatASidecarSaysIsOneShortLine() {
    String forged = "{\"error\": \"x\\n2026-11-22 ERROR forged \\u001b[2J\\r\\u202e\\u2028\\u0085y \u00e9\"}";
    assertEquals("x 2026-11-22 ERROR forged  [2J    y \u00e9", SidecarProcess.Outcome.parse(forged).text);
    String text = String.join("", Collections.nCopies(60_000, "x"));
    assertEquals(1003, SidecarProcess.Outcome.parse("{\"error\": \"" + text + "\"}").text.length());
    assertEquals(1003, SidecarProcess.Outcome.parse(
        "{\"ready\": true, \"port\": 7, \"version\": \"" + text + "\"}").text.length());
    for (String other : new String[] {"{\"progress\": \"x\"}", "no json", "[]", "7", ""}) {
      assertNull(SidecarProcess.Outcome.parse(other));
    }
  }

  @Test
  void itsErrorIsTheReason() throws Exception {
    script("read line; echo '{\"progress\": \"reading\"}'\n"
        + "echo '{\"error\": \"treadle.yaml, line 3: no such policy\"}'; exit 2\n");
    String reason = failure();
    assertTrue(reason.contains("treadle.yaml, line 3: no such policy"), reason);
  }

  @Test
  void oneThatIsNeverReadyIsKilled() throws Exception {
    conf.set(ShimConfig.SIDECAR_START_TIMEOUT_MS, "500");
    script("kill -STOP $$\n");
    assertNull(sidecar.connect(PATIENT_MS), "it has been started and is not ready");
    Await.until("it has said who it is", () -> Files.exists(folder.resolve("pids")) && !pids().isEmpty());
    String reason = failure();
    assertTrue(reason.contains("not ready after 500 ms"), reason);
    assertFalse(runs(pids().get(0)));
  }

  @Test
  void nonsenseOnStandardOutputDoesNoHarm() throws Exception {
    script("echo hello; echo '{'; echo '[1]'; echo '{\"ready\": false}'; head -c 300000 /dev/zero; echo\n"
        + "head -c 60000 /dev/zero | tr '\\0' '['; echo\n" + READY
        + "cat > /dev/null\n");
    try (Engine engine = engine()) {
      assertNotNull(engine);
    }
  }

  @Test
  void oneThatHangsIsReplacedByAnotherWhenItIsDead() throws Exception {
    script(READY + "exec sleep 1000\n");
    for (int i = 0; i < ManagedSidecar.FAILURES; i++) {
      engine().close();
      assertEquals(1, starts.get());
      sidecar.failed();
    }
    assertFalse(runs(pids().get(0)));
    engine().close();
    assertEquals(2, starts.get());
    assertNotEquals(pids().get(0), pids().get(1));
  }

  @Test
  void answersBetweenFailuresKeepItAlive() throws Exception {
    script(READY + "exec sleep 1000\n");
    for (int i = 0; i < 3 * ManagedSidecar.FAILURES; i++) {
      engine().close();
      sidecar.failed();
      sidecar.answered();
    }
    assertEquals(1, starts.get());
    assertTrue(runs(pids().get(0)));
    sidecar.stop();
    assertFalse(runs(pids().get(0)));
  }

  @Test
  void aMissingExecutableIsSaidWithItsKey() throws Exception {
    conf.set(ShimConfig.PYTHON_COMMAND, folder.resolve("nowhere").toString());
    makeSidecar();
    String reason = failure();
    assertTrue(reason.contains(ShimConfig.PYTHON_COMMAND), reason);
    assertTrue(reason.contains("nowhere"), reason);
    // a refresh does not take the key over
    assertTrue(reason.endsWith("restart the ResourceManager"), reason);
    assertEquals(0, starts.get());
  }
}

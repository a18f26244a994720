// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Texts of users and sidecars, in arguments and in exceptions. */
class LogTest {
  private static final String FORGED = "x\n2026-11-24 07:30:00 FATAL forged \u001b[2J\u2028";

  private final LogCapturer captured = LogCapturer.captureLogs(LoggerFactory.getLogger(LogTest.class));

  @AfterEach
  void stop() {
    captured.stopCapturing();
  }

  private void isNotForged() {
    String output = captured.getOutput();
    assertTrue(output.contains("x 2026-11-24 07:30:00 FATAL forged  [2J"), output);
    assertFalse(output.contains("\n2026-11-24 07:30"), output);
    assertFalse(output.contains("\u001b"), output);
  }

  @Test
  void noArgumentEndsItsLine() {
    new Log(LogTest.class).warn("a {} is {}", 7, FORGED);
    assertTrue(captured.getOutput().contains("a 7 is x 2026"), captured.getOutput());
    isNotForged();
  }

  @Test
  void noExceptionEndsItsLineNorDoItsCauses() {
    new Log(LogTest.class).error("{} failed", null, new IOException("outer", new IllegalStateException(FORGED)));
    assertTrue(captured.getOutput().contains("java.io.IOException: outer"), captured.getOutput());
    assertTrue(captured.getOutput().contains("at io.treadle.shim.LogTest."), captured.getOutput());
    isNotForged();
  }

  /** A failover makes another scheduler in the same JVM, whose failures are to be seen. */
  @Test
  void eachKindOfFailureIsLoggedOnceInTenMinutes() {
    Log log = new Log(LogTest.class);
    long minute = TimeUnit.MINUTES.toNanos(1);
    long start = Long.MAX_VALUE - 5;
    assertTrue(log.isDue("a", start));
    assertFalse(log.isDue("a", start + 10 * minute - 1));
    assertTrue(log.isDue("b", start + minute));
    assertTrue(log.isDue("a", start + 10 * minute));
    assertFalse(log.isDue("a", start + 11 * minute));
    for (int i = 0; i < 1000; i++) {
      log.isDue("kind " + i, start);
    }
    assertFalse(log.isDue("one kind more than are remembered", start));
  }

  @Test
  void failuresOfOnePlaceAreOneLine() {
    Log log = new Log(LogTest.class);
    for (int i = 0; i < 10; i++) {
      log.failure("a proposal", new IllegalStateException("failure " + i));
    }
    assertEquals(1, captured.getOutput().split("Treadle: a proposal failed", -1).length - 1, captured.getOutput());
  }

  /**
   * Whatever is logged goes through here, so that a new line of the log need not be looked at; SelfCheck is a command.
   */
  @Test
  void noOtherClassOfTheShimLogs() throws IOException {
    try (Stream<Path> files = Files.walk(Paths.get("src/main/java"))) {
      List<Path> sources = files.filter(file -> file.toString().endsWith(".java")).collect(Collectors.toList());
      List<String> found = new ArrayList<>();
      for (Path source : sources) {
        String text = new String(Files.readAllBytes(source), StandardCharsets.UTF_8);
        if (text.matches("(?s).*(org\\.slf4j|log4j|commons\\.logging|System\\.(out|err)|printStackTrace\\().*")) {
          found.add(source.getFileName().toString());
        }
      }
      assertTrue(sources.size() > 60, sources.toString());
      Collections.sort(found);
      assertEquals("[Log.java, SelfCheck.java]", found.toString());
    }
  }
}

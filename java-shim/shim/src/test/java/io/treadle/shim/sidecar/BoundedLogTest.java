package io.treadle.shim.sidecar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BoundedLogTest {
  @TempDir
  Path folder;

  private static void write(BoundedLog log, String text) {
    log.write(text.getBytes(StandardCharsets.UTF_8), text.length());
  }

  @Test
  void keepsTheLastTwoPieces() throws Exception {
    File file = folder.resolve("deeper/sidecar.log").toFile();
    try (BoundedLog log = new BoundedLog(file, 10)) {
      write(log, "aaaaaaaa");
      write(log, "bbbbbbbb");
      write(log, "cccccccc");
      write(log, "d");
    }
    assertEquals("ccccccccd", new String(Files.readAllBytes(file.toPath())));
    assertEquals("bbbbbbbb", new String(Files.readAllBytes(folder.resolve("deeper/sidecar.log.1"))));
    assertEquals(2, file.getParentFile().list().length);
  }

  @Test
  void appendsToWhatIsThere() throws Exception {
    File file = folder.resolve("sidecar.log").toFile();
    for (int i = 0; i < 3; i++) {
      try (BoundedLog log = new BoundedLog(file, 100)) {
        write(log, "x" + i);
      }
    }
    assertEquals("x0x1x2", new String(Files.readAllBytes(file.toPath())));
  }

  @Test
  void aFileThatCannotBeWrittenIsNoFailure() {
    try (BoundedLog log = new BoundedLog(folder.toFile(), 100)) {
      write(log, "lost");
      write(log, "too");
    }
    assertTrue(folder.toFile().isDirectory());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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

  private static void write(SidecarProcess.BoundedLog log, String text) {
    log.write(text.getBytes(StandardCharsets.UTF_8), text.length());
  }

  @Test
  void keepsTheLastTwoPieces() throws Exception {
    File file = folder.resolve("deeper/sidecar.log").toFile();
    try (SidecarProcess.BoundedLog log = new SidecarProcess.BoundedLog(file, 10)) {
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
      try (SidecarProcess.BoundedLog log = new SidecarProcess.BoundedLog(file, 100)) {
        write(log, "x" + i);
      }
    }
    assertEquals("x0x1x2", new String(Files.readAllBytes(file.toPath())));
  }

  @Test
  void aFileThatCannotBeWrittenIsNoFailure() {
    try (SidecarProcess.BoundedLog log = new SidecarProcess.BoundedLog(folder.toFile(), 100)) {
      write(log, "lost");
      write(log, "too");
    }
    assertTrue(folder.toFile().isDirectory());
  }

  /** A user who may make a link by the log's name would else choose a file of the RM's user that is appended to. */
  @Test
  void aLinkIsNotFollowed() throws Exception {
    Path other = Files.write(folder.resolve("precious"), "kept".getBytes(StandardCharsets.UTF_8));
    Path link = Files.createSymbolicLink(folder.resolve("sidecar.log"), other);
    Path missing = Files.createSymbolicLink(folder.resolve("other.log"), folder.resolve("made-by-the-rm"));
    for (Path path : new Path[] {link, missing}) {
      try (SidecarProcess.BoundedLog log = new SidecarProcess.BoundedLog(path.toFile(), 100)) {
        write(log, "lost");
      }
    }
    assertEquals("kept", new String(Files.readAllBytes(other)));
    assertFalse(Files.exists(folder.resolve("made-by-the-rm")));
  }
}

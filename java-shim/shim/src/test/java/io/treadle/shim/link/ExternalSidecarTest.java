// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.ShimConfig;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Base64;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ExternalSidecarTest {
  private static final String GOOD = "{\"host\": \"127.0.0.1\", \"port\": 4711, \"handshake\": 1, \"secret\":"
      + " \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", \"pid\": 1}";

  @TempDir
  Path folder;
  private Path file;
  private ExternalSidecar sidecar;

  @BeforeEach
  void make() {
    file = folder.resolve("connection.json");
    sidecar = sidecar("");
  }

  /** A sidecar that a user runs, the RM's if it is empty. */
  private ExternalSidecar sidecar(String user) {
    Configuration conf = new Configuration(false);
    conf.set(ShimConfig.SIDECAR, "external");
    conf.set(ShimConfig.CONNECTION_FILE, file.toString());
    conf.set(ShimConfig.SIDECAR_USER, user);
    return new ExternalSidecar(ShimConfig.read(conf));
  }

  private void write(String content, String mode) throws IOException {
    Files.deleteIfExists(file);
    Files.write(file, content.getBytes());
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  private void refused(String part) {
    String message = assertThrows(IOException.class, () -> sidecar.endpoint()).getMessage();
    assertTrue(message.contains(part), message);
    assertTrue(message.contains(file.toString()), message);
  }

  @Test
  void readsWhereItListensEachTime() throws IOException {
    write(GOOD, "rw-------");
    assertEquals("127.0.0.1:4711", sidecar.endpoint().toString());
    write(GOOD.replace("4711", "4712"), "r--------");
    assertEquals("127.0.0.1:4712", sidecar.endpoint().toString());
  }

  @Test
  void tellsHowToStartOneIfThereIsNone() {
    refused("treadle sidecar run --external --connection-file");
  }

  @Test
  void refusesAFileThatOthersMayRead() throws IOException {
    for (String mode : new String[] {"rw-r-----", "rw----r--", "rw--w----", "rwx------"}) {
      write(GOOD, mode);
      refused("0600");
    }
  }

  @Test
  void refusesAFolderThatOthersMayWriteTo() throws IOException {
    write(GOOD, "rw-------");
    for (String mode : new String[] {"rwxrwx---", "rwx----w-", "rwxrwxrwx"}) {
      Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString(mode));
      refused("may be written to by others");
    }
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxr-xr-x"));
    assertEquals("127.0.0.1:4711", sidecar.endpoint().toString());
  }

  @Test
  void aUserThatThisHostDoesNotHaveIsNamedWithItsKey() throws Exception {
    write(GOOD, "rw-------");
    ExternalSidecar other = sidecar("no-such-user-here");
    String message = assertThrows(IOException.class, other::endpoint).getMessage();
    assertTrue(message.contains(ShimConfig.SIDECAR_USER + " is 'no-such-user-here'"), message);
  }

  @Test
  void aManagedSidecarHasNoUserOfItsOwn() {
    Configuration conf = new Configuration(false);
    conf.set(ShimConfig.SIDECAR_USER, "treadle");
    String message = assertThrows(IllegalArgumentException.class, () -> ShimConfig.read(conf)).getMessage();
    assertTrue(message.contains(ShimConfig.SIDECAR_USER), message);
  }

  @Test
  void refusesALink() throws IOException {
    Path target = folder.resolve("target");
    Files.write(target, GOOD.getBytes());
    Files.setPosixFilePermissions(target, PosixFilePermissions.fromString("rw-------"));
    Files.createSymbolicLink(file, target);
    refused("not a regular file");
  }

  /** A file that a killed sidecar has left names a port that any local user may have taken since. */
  @Test
  void whoeverHasTakenThePortOfAKilledSidecarGetsNeitherSecretNorFrame() throws Exception {
    byte[] frame = "jobs, users and keys of all tenants".getBytes(StandardCharsets.UTF_8);
    try (Squatter squatter = new Squatter()) {
      write(GOOD.replace("4711", String.valueOf(squatter.port())), "rw-------");
      try (Engine engine = sidecar.connect(20_000)) {
        assertThrows(IOException.class, () -> engine.decide(frame));
      }
      String heard = squatter.heard();
      assertTrue(heard.length() > 0, "nobody dialled the squatter");
      assertFalse(heard.contains("0123456789abcdef"), heard);
      assertFalse(heard.contains(Base64.getEncoder().encodeToString(frame)), heard);
    }
  }

  @Test
  void whereNobodyListensItNamesAddressFileAndRemedy() throws Exception {
    int port;
    try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      port = closed.getLocalPort();
    }
    write(GOOD.replace("4711", String.valueOf(port)), "rw-------");
    try (Engine engine = sidecar.connect(20_000)) {
      String message = assertThrows(IOException.class, () -> engine.decide(new byte[1])).getMessage();
      String[] parts = {"127.0.0.1:" + port, "Connection refused", file.toString(), "treadle sidecar run --external"};
      for (String part : parts) {
        assertTrue(message.contains(part), message);
      }
    }
  }

  @Test
  void refusesWhatIsNoConnectionFile() throws IOException {
    write("{", "rw-------");
    refused("no JSON");
    write("{}", "rw-------");
    refused("is of version 0 of the handshake, the shim speaks version 1");
    write("{\"port\": 4711, \"token\": \"abc\"}", "rw-------");
    refused("is of version 0 of the handshake, the shim speaks version 1");
    write("{\"handshake\": 1, \"port\": 4711, \"secret\": \"abc\"}", "rw-------");
    refused("lacks");
    write(GOOD.replace("abcdef\"", "abcdeg\""), "rw-------");
    refused("lacks");
    write(GOOD.replace("4711", "0"), "rw-------");
    refused("lacks");
    write(GOOD.replace("127.0.0.1", "192.0.2.1"), "rw-------");
    refused("loopback");
    write(new String(new char[70_000]).replace('\0', ' '), "rw-------");
    refused("longer");
  }
}

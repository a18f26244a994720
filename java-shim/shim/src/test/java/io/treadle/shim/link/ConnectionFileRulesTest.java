// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.ShimConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.GroupPrincipal;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ConnectionFileRulesTest {
  private static final Path FILE = Paths.get("/run/treadle/connection.json");

  /** A user by name. */
  private static final class User implements UserPrincipal {
    private final String name;

    User(String name) {
      this.name = name;
    }

    @Override
    public String getName() {
      return name;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof User && ((User) other).name.equals(name);
    }

    @Override
    public int hashCode() {
      return name.hashCode();
    }
  }

  /** What a file system would say. */
  private static final class Attributes implements PosixFileAttributes {
    private final String owner;
    private final String mode;

    Attributes(String owner, String mode) {
      this.owner = owner;
      this.mode = mode;
    }

    @Override
    public UserPrincipal owner() {
      return new User(owner);
    }

    @Override
    public GroupPrincipal group() {
      return null;
    }

    @Override
    public Set<PosixFilePermission> permissions() {
      return PosixFilePermissions.fromString(mode);
    }

    @Override
    public FileTime lastModifiedTime() {
      return FileTime.fromMillis(0);
    }

    @Override
    public FileTime lastAccessTime() {
      return FileTime.fromMillis(0);
    }

    @Override
    public FileTime creationTime() {
      return FileTime.fromMillis(0);
    }

    @Override
    public boolean isRegularFile() {
      return true;
    }

    @Override
    public boolean isDirectory() {
      return false;
    }

    @Override
    public boolean isSymbolicLink() {
      return false;
    }

    @Override
    public boolean isOther() {
      return false;
    }

    @Override
    public long size() {
      return 0;
    }

    @Override
    public Object fileKey() {
      return null;
    }
  }

  private static ExternalSidecar sidecar() {
    Configuration conf = new Configuration(false);
    conf.set(ShimConfig.SIDECAR, "external");
    conf.set(ShimConfig.CONNECTION_FILE, FILE.toString());
    return new ExternalSidecar(ShimConfig.read(conf));
  }

  private static void file(String sidecars, Attributes attributes) throws IOException {
    sidecar().checkFile(attributes, new User("yarn"), new User(sidecars));
  }

  private static void folder(String sidecars, Attributes attributes) throws IOException {
    sidecar().checkFolder(attributes, new User("yarn"), new User(sidecars));
  }

  private static void refused(Executable check, String part) {
    String message = assertThrows(IOException.class, check).getMessage();
    assertTrue(message.contains(part), message);
  }

  @Test
  void ofASidecarOfTheResourceManagersUserNobodyElseMayRead() throws IOException {
    file("yarn", new Attributes("yarn", "rw-------"));
    refused(() -> file("yarn", new Attributes("yarn", "rw-r-----")), "must be 0600");
    refused(() -> file("yarn", new Attributes("mallory", "rw-------")), "belongs to mallory, not to yarn");
    refused(() -> file("yarn", new Attributes("treadle", "rw-------")), "sidecar.user");
  }

  @Test
  void ofASidecarOfItsOwnUserTheGroupMayReadAndNobodyElseMayOwnTheFile() throws IOException {
    file("treadle", new Attributes("treadle", "rw-r-----"));
    file("treadle", new Attributes("treadle", "rw-------"));
    for (String mode : new String[] {"rw-r--r--", "rw-rw----", "rw----r--", "rwxr-----"}) {
      refused(() -> file("treadle", new Attributes("treadle", mode)), "must be 0640 or less");
    }
    for (String owner : new String[] {"mallory", "yarn", "root"}) {
      refused(() -> file("treadle", new Attributes(owner, "rw-r-----")),
          "not to treadle, whom the settings");
    }
  }

  @Test
  void theFolderIsTheSidecarsTheResourceManagersOrRoots() throws IOException {
    for (String owner : new String[] {"treadle", "yarn", "root"}) {
      folder("treadle", new Attributes(owner, "rwxr-xr-x"));
      refused(() -> folder("treadle", new Attributes(owner, "rwxrwxr-x")), "written to by others");
      refused(() -> folder("treadle", new Attributes(owner, "rwxr-xrwx")), "written to by others");
    }
    refused(() -> folder("treadle", new Attributes("mallory", "rwx------")), "belongs to mallory");
    refused(() -> folder("yarn", new Attributes("treadle", "rwx------")), "belongs to treadle");
  }
}

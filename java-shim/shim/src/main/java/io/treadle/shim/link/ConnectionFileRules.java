// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.config.ShimConfig;
import java.io.IOException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserPrincipal;
import java.util.EnumSet;
import java.util.Set;

/**
 * Who may have written a connection file, and who may read it: its sidecar's user alone, which is the RM's unless the
 * settings name another. Of another user's file the group may read, since the RM must. Immutable.
 */
final class ConnectionFileRules {
  private static final Set<PosixFilePermission> OWNERS = EnumSet.of(PosixFilePermission.OWNER_READ,
      PosixFilePermission.OWNER_WRITE);

  private final Path file;
  private final UserPrincipal ours;
  private final UserPrincipal sidecars;

  /**
   * Rules for a file.
   *
   * @param ours who runs the RM
   * @param sidecars who runs the sidecar
   */
  ConnectionFileRules(Path file, UserPrincipal ours, UserPrincipal sidecars) {
    this.file = file;
    this.ours = ours;
    this.sidecars = sidecars;
  }

  /** Anybody who may write to the folder could put a file with a secret of their own in its place. */
  void checkFolder(PosixFileAttributes attributes) throws IOException {
    UserPrincipal owner = attributes.owner();
    if (!owner.equals(ours) && !owner.equals(sidecars) && !"root".equals(owner.getName())) {
      throw new IOException("the folder of the connection file " + file + " belongs to " + owner.getName() + ", not to "
          + sidecars.getName() + ", who runs the sidecar, or root: name a file in a folder of that user's");
    }
    if (attributes.permissions().contains(PosixFilePermission.OTHERS_WRITE)
        || attributes.permissions().contains(PosixFilePermission.GROUP_WRITE)) {
      throw new IOException("the folder of the connection file " + file + " may be written to by others: its mode must"
          + " be 0755 or less");
    }
  }

  void checkFile(PosixFileAttributes attributes) throws IOException {
    if (!attributes.isRegularFile()) {
      throw new IOException("the connection file " + file + " is no regular file");
    }
    Set<PosixFilePermission> allowed = EnumSet.copyOf(OWNERS);
    if (!ours.equals(sidecars)) {
      allowed.add(PosixFilePermission.GROUP_READ);
    }
    if (!allowed.containsAll(attributes.permissions())) {
      throw new IOException("the connection file " + file + " may be read by others: its mode must be "
          + (ours.equals(sidecars) ? "0600" : "0640 or less"));
    }
    if (!attributes.owner().equals(sidecars)) {
      throw new IOException("the connection file " + file + " belongs to " + attributes.owner().getName() + ", not to "
          + sidecars.getName() + (ours.equals(sidecars)
              ? ", who runs the ResourceManager: run the sidecar as that user, or name its user in "
              : ", whom the settings name: run the sidecar as that user, or correct ") + ShimConfig.SIDECAR_USER);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.ShimConfig;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserPrincipal;
import java.nio.file.attribute.UserPrincipalNotFoundException;
import java.util.EnumSet;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.hadoop.thirdparty.com.google.common.io.ByteStreams;
import org.apache.hadoop.util.StringUtils;

/**
 * An externally started sidecar. It writes a connection file, which holds its secret and so must not be readable by
 * others; the file is read again for each connection, since another sidecar writes another.
 */
public final class ExternalSidecar implements EngineSource {
  private static final int FILE_BYTES = 1 << 16;
  /** 256 bits. What Hadoop reads as hexadecimal may have signs in place of digits. */
  private static final Pattern SECRET = Pattern.compile("[0-9a-fA-F]{64}");

  private final Path file;
  private final String user;
  /** The command that starts such a sidecar. */
  private final String start;
  private final ShimConfig config;

  /** The sidecar that the settings name. */
  public ExternalSidecar(ShimConfig config) {
    this.file = Paths.get(config.connectionFile);
    this.user = config.sidecarUser;
    this.start = "'treadle sidecar run --external --connection-file " + config.connectionFile + "'";
    this.config = config;
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    return new Py4jEngine(endpoint(), timeoutMs, config.frameMaxBytes, config.replyMaxBytes);
  }

  /** Where the sidecar listens, as the file says now. */
  Py4jEngine.Endpoint endpoint() throws IOException {
    try {
      // the user whom this process runs as, which need not be the one in user.name
      UserPrincipal ours = Files.getOwner(Paths.get("/proc/self"));
      UserPrincipal sidecars = sidecarUser(ours);
      checkFolder(Files.readAttributes(file.toAbsolutePath().getParent(), PosixFileAttributes.class), ours, sidecars);
      checkFile(Files.readAttributes(file, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS), ours, sidecars);
      return parse(read());
    } catch (NoSuchFileException e) {
      throw new IOException("no sidecar has written the connection file " + file + " (" + ShimConfig.CONNECTION_FILE
          + "); start " + start);
    }
  }

  private UserPrincipal sidecarUser(UserPrincipal ours) throws IOException {
    if (user.isEmpty()) {
      return ours;
    }
    try {
      return file.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName(user);
    } catch (UserPrincipalNotFoundException e) {
      throw new IOException(ShimConfig.SIDECAR_USER + " is '" + user + "', but this host has no such user");
    }
  }

  private String read() throws IOException {
    try (InputStream in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
      byte[] bytes = ByteStreams.toByteArray(ByteStreams.limit(in, FILE_BYTES));
      if (bytes.length == FILE_BYTES) {
        throw new IOException("the connection file " + file + " is longer than " + FILE_BYTES + " bytes");
      }
      return new String(bytes, StandardCharsets.UTF_8);
    }
  }

  private Py4jEngine.Endpoint parse(String content) throws IOException {
    JsonNode root = Json.object(content, "the connection file " + file);
    int port = root.path("port").asInt(0);
    int handshake = root.path("handshake").asInt(0);
    if (handshake != Handshake.VERSION) {
      throw new IOException("the connection file " + file + " is of version " + handshake + " of the handshake, the"
          + " shim speaks version " + Handshake.VERSION
          + ": give the sidecar and the ResourceManager the same release");
    }
    String secret = root.path("secret").asText("");
    InetAddress address = InetAddress.getByName(root.path("host").asText("127.0.0.1"));
    if (port < 1 || port > 65535 || !SECRET.matcher(secret).matches()) {
      throw new IOException("the connection file " + file + " lacks 'port' or 'secret'");
    }
    if (!address.isLoopbackAddress()) {
      throw new IOException("the connection file " + file + " names the host " + address.getHostAddress()
          + ", but a sidecar listens on loopback only");
    }
    return new Py4jEngine.Endpoint(address, port, StringUtils.hexStringToByte(secret), ", though the connection file "
        + file + " names it: the sidecar was killed; start it again with " + start);
  }

  /** Anybody who may write to the folder could put a file with a secret of their own in its place. */
  void checkFolder(PosixFileAttributes attributes, UserPrincipal ours, UserPrincipal sidecars) throws IOException {
    UserPrincipal owner = attributes.owner();
    if (!owner.equals(ours) && !owner.equals(sidecars) && !"root".equals(owner.getName())) {
      throw new IOException("the folder of the connection file " + file + " belongs to " + owner.getName()
          + ", not to " + sidecars.getName() + ", who runs the sidecar, or root: name a file in a folder of that"
          + " user's");
    }
    if (attributes.permissions().contains(PosixFilePermission.OTHERS_WRITE)
        || attributes.permissions().contains(PosixFilePermission.GROUP_WRITE)) {
      throw new IOException("the folder of the connection file " + file
          + " may be written to by others: its mode must be 0755 or less");
    }
  }

  /**
   * A connection file is written and read by its sidecar's user alone, which is the RM's unless the settings name
   * another. A file of another user may be readable by its group, since the RM must read it.
   */
  void checkFile(PosixFileAttributes attributes, UserPrincipal ours, UserPrincipal sidecars) throws IOException {
    if (!attributes.isRegularFile()) {
      throw new IOException("the connection file " + file + " is not a regular file");
    }
    Set<PosixFilePermission> allowed = EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);
    if (!ours.equals(sidecars)) {
      allowed.add(PosixFilePermission.GROUP_READ);
    }
    if (!allowed.containsAll(attributes.permissions())) {
      throw new IOException("the connection file " + file + " may be read by others: its mode must be "
          + (ours.equals(sidecars) ? "0600" : "0640 or less"));
    }
    if (!attributes.owner().equals(sidecars)) {
      throw new IOException("the connection file " + file + " belongs to " + attributes.owner().getName()
          + ", not to " + sidecars.getName() + (ours.equals(sidecars)
              ? ", who runs the ResourceManager: run the sidecar as that user, or name its user in "
              : ", whom the settings name: run the sidecar as that user, or correct ") + ShimConfig.SIDECAR_USER);
    }
  }
}

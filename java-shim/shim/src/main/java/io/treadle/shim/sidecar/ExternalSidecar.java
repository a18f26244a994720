package io.treadle.shim.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.Engine;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.Py4jEngine;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.UserPrincipal;
import java.util.EnumSet;
import java.util.Set;

/**
 * A sidecar that somebody else runs. It writes a connection file, which holds its secret and so must be readable by the
 * RM's user only; the file is read again for each connection, since another sidecar writes another.
 */
public final class ExternalSidecar implements EngineSource {
  private static final Set<PosixFilePermission> OWNERS = EnumSet.of(PosixFilePermission.OWNER_READ,
      PosixFilePermission.OWNER_WRITE);
  private static final int FILE_BYTES = 1 << 16;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Path file;
  private final int frameMaxBytes;
  private final int replyMaxBytes;

  /** A sidecar whose connection file is in the settings. */
  public ExternalSidecar(ShimConfig config) {
    this.file = Paths.get(config.sidecar().connectionFile());
    this.frameMaxBytes = config.frameMaxBytes();
    this.replyMaxBytes = config.replyMaxBytes();
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    return new Py4jEngine(endpoint(), timeoutMs, frameMaxBytes, replyMaxBytes);
  }

  /** Where the sidecar listens, as the file says now. */
  Py4jEngine.Endpoint endpoint() throws IOException {
    try {
      UserPrincipal user = currentUser();
      checkFolder(Files.readAttributes(folder(), PosixFileAttributes.class), user);
      check(Files.readAttributes(file, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS), user);
      return parse(read());
    } catch (NoSuchFileException e) {
      throw new IOException("no sidecar has written the connection file " + file + " (" + ShimConfig.CONNECTION_FILE
          + "); start 'treadle sidecar --external --connection-file " + file + "'");
    }
  }

  private Path folder() {
    return file.toAbsolutePath().getParent();
  }

  /** Whoever may write to the folder could put a file with a secret of their own in the place of this one. */
  private void checkFolder(PosixFileAttributes attributes, UserPrincipal user) throws IOException {
    String owner = attributes.owner().getName();
    if (!attributes.owner().equals(user) && !"root".equals(owner)) {
      throw new IOException("the folder of the connection file " + file + " belongs to " + owner + ", not to "
          + user.getName() + ", who runs the ResourceManager, or root: name a file in a folder of that user's");
    }
    if (attributes.permissions().contains(PosixFilePermission.OTHERS_WRITE)
        || attributes.permissions().contains(PosixFilePermission.GROUP_WRITE)) {
      throw new IOException("the folder of the connection file " + file + " may be written to by others: its mode must"
          + " be 0755 or less");
    }
  }

  private void check(PosixFileAttributes attributes, UserPrincipal user) throws IOException {
    if (!attributes.isRegularFile()) {
      throw new IOException("the connection file " + file + " is no regular file");
    }
    if (!OWNERS.containsAll(attributes.permissions())) {
      throw new IOException("the connection file " + file + " may be read by others: its mode must be 0600");
    }
    if (!attributes.owner().equals(user)) {
      throw new IOException("the connection file " + file + " belongs to " + attributes.owner().getName() + ", not to "
          + user.getName() + ", who runs the ResourceManager: run the sidecar as that user");
    }
  }

  /** The user whom this process runs as, which need not be the one in {@code user.name}. */
  private static UserPrincipal currentUser() throws IOException {
    Path self = Paths.get("/proc/self");
    if (Files.exists(self)) {
      return Files.getOwner(self);
    }
    return self.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName(System.getProperty("user.name"));
  }

  private byte[] read() throws IOException {
    byte[] bytes = new byte[FILE_BYTES];
    int length = 0;
    try (InputStream in = Files.newInputStream(file, LinkOption.NOFOLLOW_LINKS)) {
      int count = in.read(bytes);
      while (count > 0) {
        length += count;
        count = in.read(bytes, length, FILE_BYTES - length);
      }
    }
    if (length == FILE_BYTES) {
      throw new IOException("the connection file " + file + " is longer than " + FILE_BYTES + " bytes");
    }
    byte[] content = new byte[length];
    System.arraycopy(bytes, 0, content, 0, length);
    return content;
  }

  private Py4jEngine.Endpoint parse(byte[] content) throws IOException {
    JsonNode root;
    try {
      root = JSON.readTree(content);
    } catch (IOException e) {
      root = null;
    }
    if (root == null) {
      throw new IOException("the connection file " + file + " is no JSON");
    }
    int port = root.path("port").asInt(0);
    int handshake = root.path("handshake").asInt(0);
    if (handshake != Py4jEngine.HANDSHAKE) {
      throw new IOException("the connection file " + file + " is of version " + handshake + " of the handshake, the shim"
          + " speaks version " + Py4jEngine.HANDSHAKE + ": give the sidecar and the ResourceManager the same release");
    }
    byte[] secret = SidecarSecret.parse(root.path("secret").asText(""));
    InetAddress address = InetAddress.getByName(root.path("host").asText("127.0.0.1"));
    if (port < 1 || port > 65535 || secret == null) {
      throw new IOException("the connection file " + file + " lacks 'port' or 'secret'");
    }
    if (!address.isLoopbackAddress()) {
      throw new IOException("the connection file " + file + " names the host " + address.getHostAddress()
          + ", but a sidecar listens on loopback only");
    }
    return new Py4jEngine.Endpoint(address, port, secret);
  }
}

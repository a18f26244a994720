package io.treadle.shim.link;

import io.treadle.shim.Printable;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import javax.net.SocketFactory;
import py4j.CallbackClient;
import py4j.Py4JClientConnection;
import py4j.Py4JException;
import py4j.Py4JNetworkException;

/**
 * The sidecar's engine over Py4J: a {@link CallbackClient} that calls one method of one Python object. The call is
 * written by hand, so there is no Py4J Gateway in the RM and no object of the RM that Python could reach. Connects at
 * the first call. After an exception it is of no more use. Used by one thread at a time.
 */
public final class Py4jEngine implements Engine {
  /** Py4J logs whole commands at INFO, frames and all, and java.util.logging prints INFO to the RM's standard error. */
  private static final Logger SILENCED = Logger.getLogger(CallbackClient.class.getPackage().getName());

  /** Version of the handshake that opens each connection; the sidecar must have the same. */
  public static final int HANDSHAKE = Handshake.VERSION;

  private static final String CALL = "c\nt\ndecide\nj";
  private static final String END = "\ne\n";
  private static final String SUCCESS_BYTES = "yj";
  private static final int ERROR_TEXT_CHARACTERS = 300;

  static {
    SILENCED.setLevel(Level.OFF);
  }

  private final CallLimits limits;
  private final BoundedSocketFactory sockets;
  private final Client client;

  /**
   * An engine that is not connected yet.
   *
   * @param endpoint where the sidecar listens
   * @param timeoutMs how long a call may take, connecting included, milliseconds
   * @param frameMaxBytes the longest frame that is sent
   * @param replyMaxBytes the longest proposal frame that is taken
   */
  public Py4jEngine(Endpoint endpoint, int timeoutMs, int frameMaxBytes, int replyMaxBytes) {
    long line = 4L * (replyMaxBytes / 3 + 1) + 16 + Handshake.ANSWER_BYTES;
    this.limits = new CallLimits(timeoutMs, line);
    this.sockets = new BoundedSocketFactory(endpoint, limits, new Handshake(endpoint, frameMaxBytes, replyMaxBytes));
    this.client = new Client(endpoint, sockets, timeoutMs);
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    limits.begin();
    String encoded = Base64.getEncoder().encodeToString(frame);
    String reply;
    try {
      reply = client.sendCommand(CALL + encoded + END);
    } catch (Py4JException e) {
      // Not as the cause: its message holds the whole frame.
      throw new IOException(reason(e));
    }
    return decode(reply);
  }

  private static byte[] decode(String reply) throws IOException {
    if (reply.startsWith(SUCCESS_BYTES)) {
      try {
        String encoded = reply.substring(SUCCESS_BYTES.length());
        return Base64.getDecoder().decode(encoded.getBytes(StandardCharsets.ISO_8859_1));
      } catch (IllegalArgumentException e) {
        throw new IOException("an answer that is not base64");
      }
    }
    if (reply.startsWith("xs")) {
      throw new IOException("the engine failed: " + lastLine(reply.substring(2)));
    }
    throw new IOException("an answer that is no bytes: " + Printable.cut(reply, ERROR_TEXT_CHARACTERS));
  }

  /** The line of a Python traceback, with its line ends escaped by Py4J, that says what happened. */
  private static String lastLine(String traceback) {
    String[] lines = traceback.trim().split("\\\\n");
    return lines.length == 0 ? "" : Printable.cut(lines[lines.length - 1].trim(), ERROR_TEXT_CHARACTERS);
  }

  /** What happened below Py4J's own exceptions, whose messages repeat the command. */
  private static String reason(Throwable thrown) {
    Throwable cause = thrown;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    if (cause instanceof Py4JNetworkException) {
      return "the sidecar closed the connection";
    }
    return cause.getMessage() == null ? cause.toString() : Printable.cut(cause.getMessage(), ERROR_TEXT_CHARACTERS);
  }

  @Override
  public void close() {
    client.shutdown();
    try {
      sockets.closeLast();
    } catch (IOException e) {
      // it is given up anyway
    }
  }

  private static final class Client extends CallbackClient {
    /** No cleaner thread: the connection lasts as long as the engine. */
    private static final long NO_CLEANER = 0;

    Client(Endpoint endpoint, SocketFactory factory, int timeoutMs) {
      // No token of Py4J's, which would be sent as it is: the sockets have proved themselves.
      super(endpoint.port, endpoint.address, null, NO_CLEANER, TimeUnit.SECONDS, factory, false,
          timeoutMs);
    }

    /** A frame is sent once. Py4J's retry has no bound, and the engine would take a second copy for a gap. */
    @Override
    protected boolean shouldRetrySendCommand(Py4JClientConnection connection, Py4JNetworkException failure) {
      return false;
    }
  }

  /** Where a sidecar listens, and the secret that it shares with the RM. */
  public static final class Endpoint {
    final InetAddress address;
    final int port;
    final byte[] secret;
    final String remedy;

    /** An endpoint, and the rest of a sentence that says what to do if nobody listens there. The secret is not copied. */
    public Endpoint(InetAddress address, int port, byte[] secret, String remedy) {
      this.address = address;
      this.port = port;
      this.secret = secret;
      this.remedy = remedy;
    }

    /** Without the secret. */
    @Override
    public String toString() {
      return address.getHostAddress() + ":" + port;
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Printable;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.hadoop.io.IOUtils;
import org.apache.hadoop.net.StandardSocketFactory;
import org.apache.hadoop.thirdparty.com.google.common.base.Throwables;
import py4j.CallbackConnection;
import py4j.Py4JException;
import py4j.Py4JNetworkException;

/**
 * The sidecar's engine over Py4J: a connection on which one method of one Python object is called. The call is written
 * by hand, so there is no Py4J Gateway in the RM and no object of the RM that Python could reach. Connects at the first
 * call. After an exception it is of no more use. Used by one thread at a time; any may close it.
 */
public final class Py4jEngine implements Engine {
  /** Py4J logs whole commands at INFO, frames and all, and java.util.logging prints INFO to the RM's standard error. */
  private static final Logger SILENCED = Logger.getLogger(CallbackConnection.class.getPackage().getName());

  private static final byte[] CALL = "c\nt\ndecide\nj".getBytes(StandardCharsets.ISO_8859_1);
  private static final byte[] END = "\ne\n".getBytes(StandardCharsets.ISO_8859_1);
  private static final String SUCCESS_BYTES = "yj";
  private static final int ERROR_TEXT_CHARACTERS = 300;

  static {
    SILENCED.setLevel(Level.OFF);
  }

  private final Endpoint endpoint;
  private final Handshake handshake;
  private final BoundedSocket socket;
  /** Null until the first call. No token of Py4J's, which would be sent as it is: the socket has proved itself. */
  private CallbackConnection connection;

  /**
   * An engine that is not connected yet.
   *
   * @param endpoint where the sidecar listens
   * @param timeoutMs how long a call may take, connecting included, milliseconds
   * @param frameMaxBytes the longest frame that is sent
   * @param replyMaxBytes the longest proposal frame that is taken
   */
  public Py4jEngine(Endpoint endpoint, int timeoutMs, int frameMaxBytes, int replyMaxBytes) {
    this.endpoint = endpoint;
    this.handshake = new Handshake(endpoint, frameMaxBytes, replyMaxBytes);
    this.socket = new BoundedSocket(timeoutMs, 4L * (replyMaxBytes / 3 + 1) + 16 + Handshake.ANSWER_BYTES);
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    socket.begin();
    String reply;
    try {
      if (connection == null) {
        connect();
      }
      reply = connection.sendCommand(command(frame));
    } catch (Py4JException | IOException e) {
      // Not as the cause: its message holds the whole frame.
      throw new IOException(socket.lateness() == null ? reason(e) : socket.lateness());
    } finally {
      socket.end();
    }
    return decode(reply);
  }

  /** The call, copied as rarely as can be: a frame may have megabytes. */
  private static String command(byte[] frame) {
    byte[] encoded = Base64.getEncoder().encode(frame);
    ByteBuffer command = ByteBuffer.allocate(CALL.length + encoded.length + END.length);
    return new String(command.put(CALL).put(encoded).put(END).array(), StandardCharsets.ISO_8859_1);
  }

  /** Both ends prove that they know the secret before Py4J gets the socket. */
  private void connect() throws IOException {
    socket.setTcpNoDelay(true); // with Nagle's algorithm a reply of 8 KiB takes 44 ms
    try {
      socket.connect(new InetSocketAddress(endpoint.address, endpoint.port));
    } catch (ConnectException e) {
      // Not as the cause, since the innermost one is reported.
      throw new IOException("no sidecar listens at " + endpoint + " (" + e.getMessage() + ")" + endpoint.remedy);
    }
    handshake.perform(socket.getInputStream(), socket.getOutputStream());
    connection = new CallbackConnection(endpoint.port, endpoint.address, new StandardSocketFactory() {
      @Override
      public Socket createSocket(InetAddress address, int port) {
        return socket;
      }
    });
    connection.start();
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
    throw new IOException("an answer that is not bytes: " + Printable.cut(reply, ERROR_TEXT_CHARACTERS));
  }

  /** What happened below Py4J's own exceptions, whose messages repeat the command. */
  private static String reason(Throwable thrown) {
    Throwable cause = Throwables.getRootCause(thrown);
    if (cause instanceof Py4JNetworkException) {
      return "the sidecar closed the connection";
    }
    return cause.getMessage() == null ? cause.toString() : Printable.cut(cause.getMessage(), ERROR_TEXT_CHARACTERS);
  }

  @Override
  public void close() {
    IOUtils.closeSocket(socket);
  }

  /** Where a sidecar listens, and the secret that it shares with the RM. */
  public static final class Endpoint {
    final InetAddress address;
    final int port;
    final byte[] secret;
    final String remedy;

    /** An endpoint, and the rest of a sentence with the remedy if there is no listener. The secret is not copied. */
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

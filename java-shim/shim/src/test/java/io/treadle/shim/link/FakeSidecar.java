// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Something on loopback that knows the secret and speaks as much of Py4J as a test wants, and misbehaves as the test
 * says.
 */
final class FakeSidecar implements AutoCloseable {
  static final byte[] SECRET = new byte[32];
  static final int FRAME_BYTES = 64 << 20;

  /** What is done with one frame. */
  interface Behaviour {
    void answer(byte[] frame, OutputStream out) throws Exception;
  }

  private final ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private final Behaviour behaviour;
  /** How many callers have proved themselves. */
  final AtomicInteger handshakes = new AtomicInteger();
  private final Thread thread;

  FakeSidecar(Behaviour behaviour) throws IOException {
    this.behaviour = behaviour;
    thread = new Thread(this::serve, "fake-sidecar");
    thread.setDaemon(true);
    thread.start();
  }

  static void reply(OutputStream out, byte[] answer) throws IOException {
    write(out, "!yj" + Base64.getEncoder().encodeToString(answer) + "\n");
  }

  static void write(OutputStream out, String text) throws IOException {
    out.write(text.getBytes(StandardCharsets.UTF_8));
    out.flush();
  }

  /** An engine that knows the secret. */
  Py4jEngine engine(int timeoutMs) {
    return engine(server.getInetAddress(), server.getLocalPort(), timeoutMs);
  }

  /** An engine that knows the secret, of the process that listens there. */
  static Py4jEngine engine(InetAddress address, int port, int timeoutMs) {
    return new Py4jEngine(new Py4jEngine.Endpoint(address, port, SECRET, ""), timeoutMs, FRAME_BYTES,
        Py4jEngineTest.REPLY_BYTES);
  }

  int port() {
    return server.getLocalPort();
  }

  private void serve() {
    while (!server.isClosed()) {
      try (Socket socket = server.accept()) {
        sockets.add(socket);
        converse(socket);
      } catch (Exception e) {
        // the client has gone, or the test is over
      }
    }
  }

  private void converse(Socket socket) throws Exception {
    OutputStream out = socket.getOutputStream();
    DataInputStream bytes = new DataInputStream(socket.getInputStream());
    byte[] hello = new byte[8 + Handshake.NONCE_BYTES];
    bytes.readFully(hello);
    byte[] answer = Handshake.hello(new byte[Handshake.NONCE_BYTES]);
    Handshake own = new Handshake(
        new Py4jEngine.Endpoint(server.getInetAddress(), server.getLocalPort(), SECRET, ""), FRAME_BYTES,
        Py4jEngineTest.REPLY_BYTES);
    out.write(answer);
    out.write(own.sidecarCode(hello, answer));
    byte[] expected = own.proof(hello, answer);
    byte[] proof = new byte[expected.length];
    bytes.readFully(proof);
    if (!Arrays.equals(proof, expected)) {
      throw new IOException("not the secret");
    }
    handshakes.incrementAndGet();
    BufferedReader in = new BufferedReader(new InputStreamReader(bytes, StandardCharsets.UTF_8));
    while (true) {
      expect(in, "c");
      expect(in, "t");
      expect(in, "decide");
      String argument = in.readLine();
      expect(in, "e");
      if (argument.charAt(0) != 'j') {
        throw new IOException("no bytes: " + argument);
      }
      behaviour.answer(Base64.getDecoder().decode(argument.substring(1)), out);
    }
  }

  private static void expect(BufferedReader in, String line) throws IOException {
    String read = in.readLine();
    if (!line.equals(read)) {
      throw new IOException("expected " + line + ", not " + read);
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}

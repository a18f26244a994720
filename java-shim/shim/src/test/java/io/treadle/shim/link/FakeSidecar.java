package io.treadle.shim.link;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Something on loopback that speaks as much of Py4J as a test wants, and misbehaves as the test says. */
final class FakeSidecar implements AutoCloseable {
  static final String TOKEN = "0123456789abcdef";

  /** What is done with one frame. */
  interface Behaviour {
    void answer(byte[] frame, OutputStream out) throws Exception;
  }

  private final ServerSocket server = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private final Behaviour behaviour;
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

  Py4jEngine.Endpoint endpoint(String token) {
    return new Py4jEngine.Endpoint(server.getInetAddress(), server.getLocalPort(), token);
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
    BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
    OutputStream out = socket.getOutputStream();
    expect(in, "A");
    if (!TOKEN.equals(in.readLine())) {
      write(out, "!xsNo\n");
      return;
    }
    expect(in, "e");
    write(out, "!yv\n");
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

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A process without the secret that owns a sidecar's old port: takes whatever comes and says yes to it. */
final class Squatter implements AutoCloseable {
  private final ServerSocket server = new ServerSocket(0, 10, InetAddress.getByName("127.0.0.1"));
  private final ByteArrayOutputStream heard = new ByteArrayOutputStream();
  private final Thread thread = new Thread(this::serve, "squatter");

  Squatter() throws IOException {
    thread.setDaemon(true);
    thread.start();
  }

  int port() {
    return server.getLocalPort();
  }

  private void serve() {
    while (!server.isClosed()) {
      try (Socket socket = server.accept()) {
        InputStream in = socket.getInputStream();
        byte[] bytes = new byte[4096];
        for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
          synchronized (heard) {
            heard.write(bytes, 0, count);
          }
          // to Py4J: you are authenticated, and here is an answer; to a handshake: 74 bytes of which none is a code
          socket.getOutputStream().write("!yv\n!yjAAAA\n".getBytes(StandardCharsets.US_ASCII));
          socket.getOutputStream().write(new byte[60]);
        }
      } catch (IOException e) {
        // the client has gone, or the test is over
      }
    }
  }

  /** All that was said to it, a character for a byte. */
  String heard() throws IOException, InterruptedException {
    server.close();
    thread.join();
    synchronized (heard) {
      return new String(heard.toByteArray(), StandardCharsets.ISO_8859_1);
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
  }
}

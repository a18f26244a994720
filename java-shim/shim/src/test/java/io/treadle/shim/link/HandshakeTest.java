// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Who is taken for a sidecar, and what the others get to hear. */
@Timeout(60)
class HandshakeTest {
  private static final int PATIENT_MS = 20_000;

  /** Somebody on loopback, once. */
  private interface Stranger {
    void serve(InputStream in, OutputStream out) throws Exception;
  }

  private static String failure(Stranger stranger) throws Exception {
    try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      Thread thread = new Thread(() -> {
        try (Socket socket = server.accept()) {
          stranger.serve(socket.getInputStream(), socket.getOutputStream());
        } catch (Exception e) {
          // the test sees what the engine says
        }
      });
      thread.setDaemon(true);
      thread.start();
      try (Py4jEngine engine = FakeSidecar.engine(server.getInetAddress(), server.getLocalPort(), PATIENT_MS)) {
        return assertThrows(IOException.class, () -> engine.decide(new byte[10])).getMessage();
      }
    }
  }

  private static byte[] hello(InputStream in) throws IOException {
    byte[] hello = new byte[8 + Handshake.NONCE_BYTES];
    for (int length = 0; length < hello.length;) {
      length += in.read(hello, length, hello.length - length);
    }
    return hello;
  }

  /** The sidecar's tests read the same file. */
  @Test
  void theGoldenHandshake() throws Exception {
    byte[] secret = numbers(0, 32);
    Py4jEngine.Endpoint endpoint = new Py4jEngine.Endpoint(InetAddress.getByName("127.0.0.1"), 47_110, secret, "");
    Handshake handshake = new Handshake(endpoint, 9 << 20, 8 << 20);
    byte[] hello = Handshake.hello(numbers(32, 32));
    byte[] answer = Handshake.hello(numbers(64, 32));
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    all.write(hello);
    all.write(answer);
    all.write(handshake.sidecarCode(hello, answer));
    all.write(handshake.proof(hello, answer));
    assertArrayEquals(Files.readAllBytes(Paths.get("../../tests/golden/handshake.bin")), all.toByteArray());
  }

  private static byte[] numbers(int first, int count) {
    byte[] numbers = new byte[count];
    for (int i = 0; i < count; i++) {
      numbers[i] = (byte) (first + i);
    }
    return numbers;
  }

  @Test
  void everyConnectionBeginsWithAHandshakeOfItsOwn() throws Exception {
    try (FakeSidecar sidecar = new FakeSidecar((asked, out) -> FakeSidecar.reply(out, asked))) {
      for (int i = 1; i <= 3; i++) {
        try (Py4jEngine engine = sidecar.engine(PATIENT_MS)) {
          engine.decide(new byte[1]);
          engine.decide(new byte[2]);
        }
        assertEquals(i, sidecar.handshakes.get());
      }
    }
  }

  @Test
  void noTwoConnectionsSayTheSame() throws Exception {
    byte[][] said = new byte[2][];
    for (int i = 0; i < said.length; i++) {
      int at = i;
      failure((in, out) -> said[at] = hello(in));
    }
    assertTrue(!Arrays.equals(said[0], said[1]));
  }

  /** A process on a sidecar's old port passes everything on, unchanged, to the sidecar that runs now. */
  @Test
  void aRelayToTheRealSidecarIsNotTakenForIt() throws Exception {
    ByteArrayOutputStream heard = new ByteArrayOutputStream();
    CountDownLatch over = new CountDownLatch(1);
    try (FakeSidecar sidecar = new FakeSidecar((asked, out) -> FakeSidecar.reply(out, asked))) {
      String reason = failure((in, out) -> {
        try (Socket real = new Socket(InetAddress.getLoopbackAddress(), sidecar.port())) {
          Thread back = new Thread(() -> copy(real, out));
          back.start();
          for (int value = in.read(); value >= 0; value = in.read()) {
            heard.write(value);
            real.getOutputStream().write(value);
          }
        } finally {
          over.countDown();
        }
      });
      over.await();
      assertTrue(reason.contains("does not know the sidecar's secret"), reason);
      assertEquals(0, sidecar.handshakes.get());
    }
    assertEquals(8 + Handshake.NONCE_BYTES, heard.size());
  }

  private static void copy(Socket from, OutputStream out) {
    try {
      InputStream in = from.getInputStream();
      for (int value = in.read(); value >= 0; value = in.read()) {
        out.write(value);
      }
    } catch (IOException e) {
      // one of the ends has gone
    }
  }

  @Test
  void whatTheShimSaidIsNoAnswerToIt() throws Exception {
    String reason = failure((in, out) -> {
      byte[] hello = hello(in);
      out.write(hello);
      out.write(hello, 8, 32);
      in.read();
    });
    assertTrue(reason.contains("does not know the sidecar's secret"), reason);
  }

  @Test
  void anotherVersionIsNamedBesideOurs() throws Exception {
    String reason = failure((in, out) -> {
      hello(in);
      out.write(new byte[] {'T', 'R', 'D', 'H', 7, 0, 0, 0});
    });
    assertTrue(reason.contains("speaks version 7 of the handshake, the shim version 1"), reason);
  }

  @Test
  void whoeverKnowsNoHandshakeIsNamedWithItsAddress() throws Exception {
    String reason = failure((in, out) -> out.write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes("US-ASCII")));
    assertTrue(reason.contains("127.0.0.1:") && reason.contains("does not know the handshake"), reason);
    reason = failure((in, out) -> hello(in));
    assertTrue(reason.contains("closed the connection before it had proved"), reason);
  }
}

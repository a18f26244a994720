// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class Py4jEngineTest {
  private static final int PATIENT_MS = 20_000;
  private static final int IMPATIENT_MS = 200;
  static final int REPLY_BYTES = 1 << 20;

  private static String failure(FakeSidecar.Behaviour behaviour, int timeoutMs, byte[] frame) throws IOException {
    try (FakeSidecar sidecar = new FakeSidecar(behaviour);
        Py4jEngine engine = sidecar.engine(timeoutMs)) {
      IOException thrown = assertThrows(IOException.class, () -> engine.decide(frame));
      assertTrue(thrown.getMessage().length() < 1000, "the frame must not be in the message");
      return thrown.getMessage();
    }
  }

  @Test
  void carriesBytesBothWays() throws IOException {
    byte[] frame = new byte[1 << 20];
    new Random(1).nextBytes(frame);
    try (FakeSidecar sidecar = new FakeSidecar((asked, out) -> FakeSidecar.reply(out, asked));
        Py4jEngine engine = sidecar.engine(PATIENT_MS)) {
      for (int length : new int[] {0, 1, 2, 3, 1000, frame.length}) {
        byte[] part = Arrays.copyOf(frame, length);
        assertArrayEquals(part, engine.decide(part));
      }
    }
  }

  @Test
  void aLongerReplyThanAllowedIsRefused() throws IOException {
    String reason = failure((asked, out) -> FakeSidecar.reply(out, new byte[REPLY_BYTES + 100]), PATIENT_MS,
        new byte[10]);
    assertTrue(reason.contains("more than"), reason);
  }

  @Test
  void anEndlessReplyIsCutOff() throws IOException {
    byte[] letters = new byte[1 << 16];
    Arrays.fill(letters, (byte) 'A');
    String reason = failure((asked, out) -> {
      while (true) {
        out.write(letters);
      }
    }, PATIENT_MS, new byte[10]);
    assertTrue(reason.contains("more than"), reason);
  }

  @Test
  void aReplyThatDripsIsCutOff() throws IOException {
    CountDownLatch over = new CountDownLatch(1);
    String reason = failure((asked, out) -> {
      FakeSidecar.write(out, "!yj");
      while (over.getCount() > 0) {
        FakeSidecar.write(out, "A");
        over.await(5, TimeUnit.MILLISECONDS);
      }
    }, IMPATIENT_MS, new byte[10]);
    over.countDown();
    assertTrue(reason.contains("no answer within"), reason);
  }

  @Test
  void silenceIsATimeOut() throws IOException {
    String reason = failure((asked, out) -> { }, IMPATIENT_MS, new byte[10]);
    assertTrue(reason.contains("no answer within"), reason);
  }

  @Test
  void aSidecarThatDoesNotReadIsATimeOut() throws IOException {
    // nobody accepts: the kernel takes the connection, and as much of the frame as fits its buffers
    try (ServerSocket paused = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Py4jEngine engine = FakeSidecar.engine(paused.getInetAddress(), paused.getLocalPort(), IMPATIENT_MS)) {
      IOException thrown = assertThrows(IOException.class, () -> engine.decide(new byte[1]));
      assertTrue(thrown.getMessage().contains("no answer within"), thrown.getMessage());
    }
    CountDownLatch over = new CountDownLatch(1);
    byte[] frame = new byte[16 << 20]; // more than the buffers of a connection hold
    AtomicReference<String> first = new AtomicReference<>();
    try (FakeSidecar sidecar = new FakeSidecar((asked, out) -> {
      FakeSidecar.reply(out, asked);
      over.await();
    }); Py4jEngine engine = sidecar.engine(5000)) {
      assertArrayEquals(new byte[3], engine.decide(new byte[3]));
      first.set(assertThrows(IOException.class, () -> engine.decide(frame)).getMessage());
    } finally {
      over.countDown();
    }
    assertTrue(first.get().contains("no answer within"), first.get());
  }

  @Test
  void halfAReplyIsNone() throws IOException {
    String reason = failure((asked, out) -> {
      FakeSidecar.write(out, "!yjAAAA");
      throw new IOException("and away");
    }, PATIENT_MS, new byte[10]);
    assertEquals("the sidecar closed the connection", reason);
  }

  @Test
  void aClosedConnectionIsAFailure() throws IOException {
    String reason = failure((asked, out) -> {
      throw new IOException("away");
    }, PATIENT_MS, new byte[10]);
    assertEquals("the sidecar closed the connection", reason);
  }

  @Test
  void nobodyThereIsAFailure() throws IOException {
    int port;
    try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = closed.getLocalPort();
    }
    try (Py4jEngine engine = FakeSidecar.engine(InetAddress.getLoopbackAddress(), port, PATIENT_MS)) {
      assertThrows(IOException.class, () -> engine.decide(new byte[10]));
    }
  }

  @Test
  void whatIsNoBytesIsAFailure() throws IOException {
    for (String reply : new String[] {"!yv\n", "!ysabc\n", "!xsTraceback\n", "\n", "!\n", "!yjäöü\n", "!yj=\n",
        "!yj====\n", "!yj\u0000\n"}) {
      failure((asked, out) -> FakeSidecar.write(out, reply), PATIENT_MS, new byte[10]);
    }
  }

  @Test
  void anotherThreadEndsTheWaitByClosing() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    AtomicReference<Throwable> thrown = new AtomicReference<>();
    try (FakeSidecar sidecar = new FakeSidecar((frame, out) -> asked.countDown())) {
      Py4jEngine engine = sidecar.engine(PATIENT_MS);
      Thread thread = new Thread(() -> {
        try {
          engine.decide(new byte[10]);
        } catch (Throwable t) {
          thrown.set(t);
        }
      });
      thread.start();
      asked.await();
      engine.close();
      thread.join();
    }
    assertTrue(thrown.get() instanceof IOException, String.valueOf(thrown.get()));
    Await.until("no thread watches a connection that is closed", () -> Thread.getAllStackTraces().keySet().stream()
        .noneMatch(each -> each.getName().equals("treadle-deadline")));
  }

  @Test
  void py4jDoesNotLogFrames() throws IOException {
    try (FakeSidecar sidecar = new FakeSidecar((asked, out) -> FakeSidecar.reply(out, asked));
        Py4jEngine engine = sidecar.engine(PATIENT_MS)) {
      engine.decide(new byte[1]);
      assertTrue(!Logger.getLogger("py4j.CallbackConnection").isLoggable(Level.INFO));
      assertTrue(!Logger.getLogger("py4j").isLoggable(Level.SEVERE));
    }
  }
}

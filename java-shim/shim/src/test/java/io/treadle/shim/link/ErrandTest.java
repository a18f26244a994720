package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What another thread does for the link comes back to the link, whatever happens to it; that thread gets none of it. */
@Timeout(60)
class ErrandTest {
  private final ExecutorService threads = Executors.newSingleThreadExecutor();
  private final AtomicReference<Throwable> escaped = new AtomicReference<>();

  @AfterEach
  void stop() {
    threads.shutdownNow();
    assertNull(escaped.get());
  }

  private void caught(Runnable task) {
    threads.execute(() -> {
      try {
        task.run();
      } catch (Throwable t) {
        escaped.set(t);
      }
    });
  }

  @Test
  void aFailureComesBackAndIsReportedFirst() {
    AtomicReference<String> reported = new AtomicReference<>("");
    IOException failure = new IOException("dead");
    Errand<String> errand = Errand.begin(this::caught, () -> {
      throw failure;
    }, () -> reported.set("at once"));
    assertSame(failure, assertThrows(IOException.class, errand::await));
    assertEquals("at once", reported.get());
  }

  /** Where there is no memory left to do it with. */
  @Test
  void aReportThatFailsEndsTheErrandAndNoThread() {
    Errand<String> errand = Errand.begin(this::caught, () -> {
      throw new IOException("dead");
    }, () -> {
      throw new OutOfMemoryError("of the report");
    });
    assertEquals("of the report", assertThrows(OutOfMemoryError.class, errand::await).getMessage());
    errand.abandon();
  }

  @Test
  void oneThatIsAbandonedIsInterruptedAndLeavesNoInterruptBehind() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    Errand<String> errand = Errand.begin(this::caught, () -> {
      begun.countDown();
      new CountDownLatch(1).await();
      return "";
    }, () -> { });
    begun.await();
    errand.abandon();
    Future<Boolean> later = threads.submit(() -> Thread.currentThread().isInterrupted());
    assertFalse(later.get());
  }
}

package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

/** Who commits next: precedence first, and nobody is gone before twice. */
class CommitTurnsTest {
  private final CommitTurns turns = new CommitTurns();
  private final List<String> order = Collections.synchronizedList(new ArrayList<>());

  private Thread begin(String name, int precedence, int times) throws Exception {
    int before = turns.waiting();
    Thread thread = new Thread(() -> {
      for (int i = 0; i < times; i++) {
        turns.enter(precedence);
        order.add(name);
        // an engine that goes on at once must not go before those that wait
        turns.leave();
      }
    });
    thread.setDaemon(true);
    thread.start();
    Await.until(name + " waits", () -> turns.waiting() == before + 1);
    return thread;
  }

  @Test
  void ofThoseThatWaitTheHighestPrecedenceIsFirstAndThenTheEarliest() throws Exception {
    turns.enter(0);
    List<Thread> threads = Arrays.asList(begin("low", -1, 1), begin("first", 0, 1), begin("high", 5, 1),
        begin("second", 0, 1));
    turns.leave();
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals("high", order.get(0));
    assertEquals(Arrays.asList("high", "first", "second", "low"), order);
  }

  @Test
  void nobodyIsGoneBeforeTwice() throws Exception {
    turns.enter(0);
    Thread low = begin("low", -1, 1);
    Thread high = begin("high", 5, 1000);
    turns.leave();
    low.join();
    high.join();
    assertTrue(order.indexOf("low") <= 1, order.indexOf("low") + " turns of another before it");
  }

  @Test
  void oneAtATime() throws Exception {
    AtomicInteger inside = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int engine = 0; engine < 8; engine++) {
      Random random = new Random(engine);
      threads.add(new Thread(() -> {
        for (int i = 0; i < 200; i++) {
          turns.enter(random.nextInt(3));
          most.accumulateAndGet(inside.incrementAndGet(), Math::max);
          LockSupport.parkNanos(1);
          inside.decrementAndGet();
          turns.leave();
        }
      }));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(1, most.get());
    assertEquals(0, turns.waiting());
  }
}

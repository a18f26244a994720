// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.FrameReader.Table;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.ProposalFrame;
import io.treadle.shim.wire.Section;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What an engine is sent after what, and what ends a conversation. */
@Timeout(300)
class LinkTest {
  private static final String NAME = "link-test";
  private static final int MANY = 200;

  /** What a test has an engine answer, and a scheduler do with it. */
  private interface Step {
    void run(long sequence) throws Exception;
  }

  private final Configuration conf = new Configuration(false);
  private final Lease lease = new Lease(System::nanoTime, 600_000);
  private final ShimMetrics metrics = new ShimMetrics();
  private final Map<Long, FrameReader> frames = new ConcurrentSkipListMap<>();
  private final Map<Long, Integer> sizes = new ConcurrentSkipListMap<>();
  private final List<Long> committed = Collections.synchronizedList(new ArrayList<>());
  private final List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
  private final AtomicInteger inside = new AtomicInteger();
  private final AtomicInteger open = new AtomicInteger();
  private volatile int proposals = MANY;
  private volatile Step onDecide = sequence -> { };
  private volatile Step onCommit = sequence -> { };
  /** Counted down when an engine is closed. */
  private final CountDownLatch closed = new CountDownLatch(1);
  private ClusterFixture cluster;
  private Mirror mirror;
  private Link link;

  @BeforeEach
  void make() throws Exception {
    conf.set(ShimConfig.MODE, "enforce");
    // nothing but a signal or the end of a tick has the engine asked again while a test runs
    conf.set(ShimConfig.LEASE_MS, "600000");
    conf.set(ShimConfig.TICK_MS, "10");
    conf.set(ShimConfig.STARVATION_MS, "0");
    cluster = ClusterFixture.cluster().start();
    cluster.node("h1", 8192, 8);
    mirror = new Mirror(cluster.scheduler(), new Journal(1024, () -> { }), new MirrorSettings(1 << 20, 1000, 200, 1000),
        new HashMap<>());
  }

  private void start() throws Exception {
    link = new Link(NAME, mirror, lease, timeoutMs -> new TestEngine(), new TestHandler(), metrics,
        lease::schedules, ShimConfig.read(conf));
    link.start();
  }

  @AfterEach
  void stop() throws Exception {
    link.stop();
    assertTrue(Thread.getAllStackTraces().keySet().stream().noneMatch(each -> each.getName().equals(NAME)));
    assertEquals(0, open.get(), "engines left open");
    cluster.close();
    assertEquals("[]", failures.toString());
  }

  private void until(String what, Callable<Boolean> condition) throws Exception {
    Await.until(what, () -> !failures.isEmpty() || condition.call());
    assertEquals("[]", failures.toString());
  }

  /** The sequence numbers of answers whose fates a frame has, and how many of each. */
  private static Map<Long, Integer> fates(FrameReader frame) {
    Table table = frame.table(Section.FATES);
    Map<Long, Integer> found = new TreeMap<>();
    for (int row = 0; row < table.rows(); row++) {
      found.merge(table.at(row, "sequence"), (int) table.at(row, "count"), Integer::sum);
    }
    return found;
  }

  /** Has the engine answer the frame after the third answer when it is closed only; counted down once it thinks. */
  private CountDownLatch thinksForEver() {
    CountDownLatch thinks = new CountDownLatch(1);
    onDecide = sequence -> {
      if (committed.size() == 3) {
        thinks.countDown();
        closed.await();
      }
    };
    return thinks;
  }

  @Test
  void theEngineHearsOfFatesOnceWithTheNextFrame() throws Exception {
    start();
    until("six answers are committed", () -> committed.size() >= 6);
    proposals = 0;
    until("all fates are reported", () -> reported().equals(sizes));
    assertEquals(1, lease.flips());
    assertEquals(0, metrics.numbers().get("LinkFailures"));
    link.stop();
    for (long sequence : committed) {
      assertEquals(Collections.singletonMap(sequence, sizes.get(sequence)), fates(frames.get(sequence + 1)));
    }
  }

  private Map<Long, Integer> reported() {
    Map<Long, Integer> all = new TreeMap<>();
    frames.values()
        .forEach(frame -> fates(frame).forEach((sequence, count) -> all.merge(sequence, count, Integer::sum)));
    return all;
  }

  /** Nothing happens in the cluster, and the next tick without a signal is minutes away. */
  @Test
  void anEngineThatFailsBeginsAgainWithASnapshot() throws Exception {
    AtomicInteger failed = new AtomicInteger();
    onDecide = sequence -> {
      if (committed.size() == 3 && failed.incrementAndGet() == 1) {
        throw new IOException("the sidecar has died");
      }
      assertEquals(sequence > 1, lease.held());
    };
    start();
    until("the next engine is committed", () -> committed.size() >= 5 && lease.held());
    assertEquals(1, metrics.numbers().get("LinkFailures"));
    assertEquals(3, lease.flips());
    assertTrue(frames.get(1L).isSnapshot());
  }

  @Test
  void theEndEndsTheWait() throws Exception {
    CountDownLatch thinks = thinksForEver();
    start();
    until("the engine thinks for ever", () -> thinks.getCount() == 0);
    link.stop();
    assertEquals(0, open.get());
    until("no thread is left", () -> Thread.getAllStackTraces().keySet().stream()
        .noneMatch(thread -> thread.getName().startsWith(NAME)));
  }

  @Test
  void anotherLeaseBeginsAnotherConversation() throws Exception {
    onCommit = sequence -> {
      if (committed.size() == 3) {
        conf.set(ShimConfig.LEASE_MS, "500000");
        link.settings(ShimConfig.read(conf));
      }
    };
    start();
    until("another conversation has begun", () -> committed.size() >= 5);
    assertEquals(committed.get(0), committed.get(3));
    assertEquals(0, metrics.numbers().get("LinkFailures"));
    assertEquals(1, open.get());
  }

  @Test
  void whatIsOnlyObservedTakesNoRightToCommit() throws Exception {
    conf.set(ShimConfig.MODE, "observe_only");
    start();
    until("some answers are dealt with", () -> committed.size() >= 3);
    assertTrue(lease.held());
    assertFalse(lease.schedules());
    assertEquals(0, metrics.numbers().get("LinkFailures"));
  }

  private final class TestEngine implements Engine {
    private final AtomicBoolean isOpen = new AtomicBoolean(true);

    TestEngine() {
      open.incrementAndGet();
    }

    @Override
    public byte[] decide(byte[] frame) throws IOException {
      if (inside.incrementAndGet() != 1) {
        failures.add(new AssertionError("asked twice at a time"));
      }
      try {
        FrameReader read = new FrameReader(frame);
        if (read.sequence() == 1) {
          frames.clear();
        }
        frames.put(read.sequence(), read);
        onDecide.run(read.sequence());
        int limit = new ScriptedEngine.Frame(frame).limit();
        return ScriptedEngine.answer(read.epoch(), read.sequence(), 0, "", new int[3 * Math.min(limit, proposals)]);
      } catch (IOException e) {
        throw e;
      } catch (Exception e) {
        throw new IllegalStateException(e);
      } finally {
        inside.decrementAndGet();
      }
    }

    @Override
    public void close() {
      closed.countDown();
      if (isOpen.getAndSet(false)) {
        open.decrementAndGet();
      }
    }
  }

  private final class TestHandler extends NoHandler {
    @Override
    public int commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier may,
        BooleanSupplier isOver) {
      if (answer.size() > 0) {
        sizes.put(answer.sequence, answer.size());
        committed.add(answer.sequence);
        try {
          onCommit.run(answer.sequence);
        } catch (Exception | AssertionError e) {
          failures.add(e);
        }
      }
      for (int position = 0; position < answer.size(); position++) {
        directory.fate(answer.sequence, position, may.getAsBoolean() ? Fate.COMMITTED : Fate.LEASE_LOST);
      }
      return answer.size();
    }

    @Override
    public void observe(ProposalFrame answer, Directory directory, int limit) {
      commit(answer, directory, limit, () -> false, null);
    }
  }
}

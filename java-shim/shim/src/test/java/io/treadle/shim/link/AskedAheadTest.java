package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.EngineView;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.commit.CommitTime;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.FrameReader.Table;
import io.treadle.shim.wire.ProposalFrame;
import io.treadle.shim.wire.Section;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** An engine is asked while its last answer is committed, if that takes long; what it is sent then, and what ends it. */
@Timeout(300)
class AskedAheadTest {
  private static final String NAME = "asked-ahead-test";
  /** So many that the link expects them to take longer than a tick, of each length that it may ask for. */
  private static final int MANY = 200;

  /** What a test has an engine answer, and a scheduler do with it. */
  private interface Step {
    void run(long sequence) throws Exception;
  }

  private final Configuration conf = new Configuration(false);
  /** How much the clock of the lease is ahead of the one by which answers come. */
  private final AtomicLong aheadNanos = new AtomicLong();
  private final Lease lease = new Lease(() -> System.nanoTime() + aheadNanos.get(), 600_000);
  private final ShimMetrics metrics = new ShimMetrics(lease::held, lease::flips, () -> 0, () -> 0);
  private final Map<Long, FrameReader> frames = new ConcurrentSkipListMap<>();
  private final Map<Long, Integer> sizes = new ConcurrentSkipListMap<>();
  private final List<Long> committed = Collections.synchronizedList(new ArrayList<>());
  private final List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
  private final List<Boolean> heldWhenEntered = Collections.synchronizedList(new ArrayList<>());
  private final AtomicInteger inside = new AtomicInteger();
  private final AtomicInteger open = new AtomicInteger();
  private volatile int proposals = MANY;
  private volatile Step onDecide = sequence -> { };
  private volatile Step onCommit = sequence -> { };
  private volatile BooleanSupplier mayCommit = lease::schedules;
  private ClusterFixture cluster;
  private Mirror mirror;
  private Link link;

  @BeforeEach
  void make() throws Exception {
    conf.set(ShimConfig.MODE, "enforce");
    // nothing but a signal or the end of a tick has the engine asked again while a test runs
    conf.set(ShimConfig.LEASE_MS, "600000");
    conf.set(ShimConfig.TICK_MS, "10");
    conf.set(ShimConfig.IDLE_GUARD_MS, "0");
    cluster = ClusterFixture.cluster().start();
    cluster.node("h1", 8192, 8);
    mirror = new Mirror(cluster.scheduler(), new Journal(1024), MirrorSettings.of(1 << 20, 1000),
        new EngineView(node -> { }));
  }

  private void start() throws Exception {
    link = new Link(NAME, mirror, lease, timeoutMs -> new TestEngine(), new TestHandler(), metrics,
        () -> mayCommit.getAsBoolean(), new LinkSettings(ShimConfig.read(conf), 0));
    link.start();
  }

  @AfterEach
  void stop() throws Exception {
    link.stop();
    assertFalse(link.runs());
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

  /** Whether a frame is the one that is sent while the third answer is committed; waits until that has begun. */
  private boolean duringThirdCommit(long sequence) throws Exception {
    if (sequence != 4 || committed.size() > 3) {
      return false;
    }
    Await.until("the third answer is committed", () -> committed.size() == 3);
    return true;
  }

  /** Lets the engine never answer the frame sent while the third answer is committed; counted down once it thinks. */
  private CountDownLatch thinksForEverDuringThirdCommit() {
    CountDownLatch never = new CountDownLatch(1);
    CountDownLatch blocked = new CountDownLatch(1);
    onDecide = sequence -> {
      if (duringThirdCommit(sequence)) {
        blocked.countDown();
        never.await();
      }
    };
    return blocked;
  }

  /** A frame that is written in the middle of commits would have fates of some and not of others. */
  @Test
  void theEngineDecidesWhileTheLinkCommitsAndHearsOfFatesOnce() throws Exception {
    onCommit = sequence -> {
      if (committed.size() > 1) {
        Await.until("frame " + (sequence + 1) + " came before the end of the commits of frame " + sequence,
            () -> frames.containsKey(sequence + 1));
        assertEquals(sequence + 1, mirror.sequence());
      }
    };
    start();
    until("six answers are committed", () -> committed.size() >= 6);
    proposals = 0;
    until("all fates are reported", () -> reported().equals(sizes));
    assertEquals(1, metrics.numbers().get("LeaseFlips"));
    link.stop();
    for (long sequence : committed.subList(1, 6)) {
      assertEquals(Collections.emptyMap(), only(fates(frames.get(sequence + 1)), sequence));
      assertTrue(fates(frames.get(sequence + 2)).containsKey(sequence));
    }
    assertEquals(0, metrics.numbers().get("LinkFailures"));
  }

  private static Map<Long, Integer> only(Map<Long, Integer> counts, long sequence) {
    counts.keySet().removeIf(each -> each != sequence);
    return counts;
  }

  private Map<Long, Integer> reported() {
    Map<Long, Integer> all = new TreeMap<>();
    frames.values().forEach(frame -> fates(frame).forEach((sequence, count) -> all.merge(sequence, count, Integer::sum)));
    return all;
  }

  /** Nothing happens in the cluster, and the next tick without a signal is minutes away. */
  @Test
  void whatCameUpDuringCommitsIsSentAtOnce() throws Exception {
    onCommit = sequence -> {
      if (committed.size() == 3) {
        Await.until("the engine was asked ahead", () -> frames.containsKey(sequence + 1));
        proposals = 0;
      }
    };
    onDecide = sequence -> {
      if (committed.size() >= 3) {
        proposals = 0;
      }
    };
    start();
    until("the fates of all answers are reported", () -> committed.size() >= 3 && reported().keySet().containsAll(committed));
  }

  @Test
  void anEngineThatFailsMeanwhileLosesTheLeaseAtOnce() throws Exception {
    onDecide = sequence -> {
      if (duringThirdCommit(sequence)) {
        throw new IOException("the sidecar has died");
      }
    };
    onCommit = sequence -> {
      if (committed.size() == 3) {
        Await.until("nothing may be committed any more", () -> !mayCommit.getAsBoolean());
        assertEquals(0, metrics.numbers().get("LinkFailures"));
      }
    };
    start();
    until("the link has noticed", () -> metrics.numbers().get("LinkFailures") == 1);
    assertEquals("the sidecar has died", metrics.text("LastError"));
    until("the next engine begins with a snapshot and is committed", () -> committed.size() >= 5 && lease.held());
    assertTrue(frames.get(1L).isSnapshot());
  }

  /** The commits before it met a pause of the JVM: until the next answer the stock scheduler works, and is left to it. */
  @Test
  void anAnswerThatWaitedForLongerThanTheLeaseIsNotCommitted() throws Exception {
    onCommit = sequence -> {
      if (committed.size() == 3) {
        Await.until("the engine was asked ahead", () -> frames.containsKey(sequence + 1));
        aheadNanos.set(TimeUnit.HOURS.toNanos(1));
      } else if (committed.size() == 4) {
        assertFalse(mayCommit.getAsBoolean());
        assertEquals(0, lease.leftNanos());
        aheadNanos.set(0);
      }
    };
    start();
    until("some are committed after it", () -> committed.size() >= 6);
    assertEquals(Arrays.asList(true, true), heldWhenEntered);
    assertEquals(0, metrics.numbers().get("LinkFailures"));
  }

  @Test
  void theEndInterruptsTheOneThatAsks() throws Exception {
    CountDownLatch blocked = thinksForEverDuringThirdCommit();
    start();
    until("the engine thinks for ever", () -> blocked.getCount() == 0);
    link.stop();
    assertEquals(0, open.get());
    until("no thread is left", () -> Thread.getAllStackTraces().keySet().stream()
        .noneMatch(thread -> thread.getName().startsWith(NAME)));
  }

  /** The engine must not be closed under the thread that asks it. */
  @Test
  void anotherLeaseEndsTheConversationThatIsAskedAhead() throws Exception {
    CountDownLatch blocked = thinksForEverDuringThirdCommit();
    onCommit = sequence -> {
      if (committed.size() == 3) {
        blocked.await();
        conf.set(ShimConfig.LEASE_MS, "500000");
        link.settings(new LinkSettings(ShimConfig.read(conf), 1));
      }
    };
    start();
    until("another conversation has begun", () -> committed.size() >= 5);
    assertEquals(0, metrics.numbers().get("LinkFailures"));
    assertEquals(1, open.get());
  }

  /** Its indices would mean something else than those of the answer that is being committed. */
  @Test
  void nothingIsAskedAheadIfASnapshotIsDue() throws Exception {
    CountDownLatch due = new CountDownLatch(1);
    onDecide = sequence -> {
      if (duringThirdCommit(sequence)) {
        due.countDown();
        mirror.snapshotNeeded();
      }
    };
    List<Long> alone = Collections.synchronizedList(new ArrayList<>());
    onCommit = sequence -> {
      if (mirror.sequence() == sequence && committed.size() > 1) {
        alone.add(sequence);
      }
    };
    start();
    until("a snapshot came", () -> committed.size() >= 6 && due.getCount() == 0);
    link.stop();
    assertEquals(1, alone.size());
    assertTrue(frames.get(alone.get(0) + 1).isSnapshot());
    assertEquals(0, metrics.numbers().get("LinkFailures"));
  }

  @Test
  void fewProposalsAreCommittedFirst() throws Exception {
    proposals = 5;
    start();
    committedAlone();
  }

  @Test
  void nothingIsAskedAheadWhileAnswersAreObserved() throws Exception {
    conf.set(ShimConfig.MODE, "observe_only");
    start();
    committedAlone();
  }

  private void committedAlone() throws Exception {
    onCommit = sequence -> assertEquals(sequence, mirror.sequence());
    until("some answers are dealt with", () -> committed.size() >= 6);
    assertEquals(0, metrics.numbers().get("LinkFailures"));
  }

  private final class TestEngine implements Engine {
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
      } catch (InterruptedException e) {
        throw new IOException("interrupted");
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
      open.decrementAndGet();
      if (inside.get() != 0) {
        failures.add(new AssertionError("closed while it is asked"));
      }
    }
  }

  private final class TestHandler extends NoHandler {
    @Override
    public void entered() {
      heldWhenEntered.add(lease.held());
    }

    @Override
    public String commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier may, CommitTime time) {
      if (answer.size() > 0) {
        sizes.put(answer.sequence(), answer.size());
        committed.add(answer.sequence());
        try {
          // so that the link goes on to expect that many proposals take longer than a tick
          Thread.sleep(answer.size() < 32 ? 0 : 20);
          onCommit.run(answer.sequence());
        } catch (Exception | AssertionError e) {
          failures.add(e);
        }
      }
      for (int position = 0; position < answer.size(); position++) {
        directory.fate(answer.sequence(), position, may.getAsBoolean() ? Fate.COMMITTED : Fate.LEASE_LOST);
      }
      return null;
    }

    @Override
    public void observe(ProposalFrame answer, Directory directory, int limit) {
      commit(answer, directory, limit, () -> false, null);
    }
  }
}

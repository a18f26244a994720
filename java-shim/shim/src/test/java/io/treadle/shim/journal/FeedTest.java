package io.treadle.shim.journal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.junit.jupiter.api.Test;

/** Any number of mirrors read one journal, each at its own pace. */
class FeedTest {
  private static final int CAPACITY = 100;

  private final Journal journal = new Journal(CAPACITY);
  private final Feed fast = begun();
  private final Feed slow = begun();

  private static ApplicationId app(int id) {
    return ApplicationId.newInstance(1, id);
  }

  private static Set<ApplicationId> apps(int from, int to) {
    return IntStream.range(from, to).mapToObj(FeedTest::app).collect(Collectors.toSet());
  }

  private Feed begun() {
    Feed feed = journal.feed();
    assertTrue(feed.take().snapshot());
    return feed;
  }

  private void mark(int from, int to) {
    apps(from, to).forEach(journal::usageChanged);
  }

  @Test
  void eachTakesEverythingOnceAtItsOwnPace() {
    NodeId node = NodeId.newInstance("n1", 1);
    for (int i = 0; i < 5; i++) {
      mark(i, i + 2);
      journal.committedByOthers(node);
      journal.attributesChanged(Collections.singleton("n" + i));
      Changes changes = fast.take();
      assertEquals(apps(i, i + 2), changes.usages());
      assertEquals(1, changes.othersCommits().get(node));
    }
    journal.queuesChanged();
    Changes all = slow.take();
    assertFalse(all.snapshot());
    assertEquals(apps(0, 6), all.usages());
    assertEquals(5, all.othersCommits().get(node));
    assertEquals(5, all.attributes().size());
    assertTrue(all.queues());
    assertFalse(all.allNodes());
    assertEquals(0, slow.take().size());
    Changes last = fast.take();
    assertTrue(last.queues());
    assertEquals(0, last.size());
  }

  @Test
  void aBatchIsNotCopiedForThoseThatKeepUp() {
    mark(0, 3);
    Changes first = fast.take();
    assertEquals(3, first.usages().size());
    assertSame(first, slow.take());
    assertThrows(UnsupportedOperationException.class, () -> first.usages().clear());
  }

  @Test
  void whoBeginsLateGetsASnapshotAndThenWhatComes() {
    mark(0, 3);
    fast.take();
    Feed late = journal.feed();
    mark(3, 4);
    assertTrue(late.take().snapshot());
    mark(4, 5);
    assertEquals(apps(4, 5), late.take().usages());
    assertEquals(apps(3, 5), fast.take().usages());
    assertEquals(apps(0, 5), slow.take().usages());
  }

  @Test
  void whoLagsByTooManyMarksGetsASnapshotAndNobodyElseDoes() {
    Set<ApplicationId> seen = new HashSet<>();
    for (int i = 0; i < 2 * CAPACITY; i += 10) {
      mark(i, i + 10);
      Changes changes = fast.take();
      assertFalse(changes.snapshot());
      seen.addAll(changes.usages());
    }
    assertEquals(apps(0, 2 * CAPACITY), seen);
    assertTrue(slow.take().snapshot());
    mark(0, 1);
    assertEquals(apps(0, 1), slow.take().usages());
  }

  @Test
  void whoLagsByTooManyBatchesGetsASnapshot() {
    for (int i = 0; i <= Batches.KEPT_MAX; i++) {
      journal.queuesChanged();
      assertTrue(fast.take().queues());
    }
    assertTrue(slow.take().snapshot());
    assertFalse(fast.take().queues());
  }

  @Test
  void whoTakesNothingMoreKeepsNothing() {
    mark(0, CAPACITY / 2);
    WeakReference<Changes> batch = new WeakReference<>(fast.take());
    mark(0, CAPACITY - 1);
    fast.take();
    collected(batch);
    assertTrue(slow.take().snapshot());
  }

  @Test
  void whatAllHaveTakenIsNotKept() {
    mark(0, 3);
    WeakReference<Changes> batch = new WeakReference<>(fast.take());
    slow.take();
    collected(batch);
  }

  @Test
  void whoLeavesKeepsNothing() {
    mark(0, 3);
    WeakReference<Changes> batch = new WeakReference<>(fast.take());
    slow.snapshotNeeded();
    collected(batch);
    mark(3, 4);
    assertEquals(apps(3, 4), fast.take().usages());
    assertTrue(slow.take().snapshot());
  }

  /** Objects that nobody has are gone after some collections. */
  private static void collected(WeakReference<Changes> batch) {
    List<byte[]> garbage = new ArrayList<>();
    for (int i = 0; i < 200 && batch.get() != null; i++) {
      garbage.add(new byte[1 << 16]);
      System.gc();
    }
    assertTrue(batch.get() == null, "the batch is kept");
  }

  @Test
  void marksAreMadeWhileAnybodyListens() {
    slow.snapshotNeeded();
    assertFalse(journal.isPaused());
    fast.snapshotNeeded();
    assertTrue(journal.isPaused());
    mark(0, 3);
    assertTrue(slow.take().snapshot());
    mark(3, 4);
    assertEquals(apps(3, 4), slow.take().usages());
    assertTrue(fast.take().snapshot());
    assertEquals(Collections.emptySet(), fast.take().usages());
  }

  @Test
  void anOverflowMakesASnapshotForAll() {
    mark(0, CAPACITY + 1);
    assertTrue(journal.isPaused());
    assertTrue(fast.take().snapshot());
    mark(0, 1);
    assertEquals(apps(0, 1), fast.take().usages());
    assertTrue(slow.take().snapshot());
  }

  @Test
  void marksWakeAgainAfterAnybodyHasRead() {
    AtomicInteger woken = new AtomicInteger();
    journal.onMark(woken::incrementAndGet);
    mark(0, 3);
    assertEquals(1, woken.get());
    fast.take();
    mark(3, 4);
    assertEquals(2, woken.get());
    slow.take();
    mark(4, 5);
    assertEquals(3, woken.get());
  }

  @Test
  void noMarkIsLostBetweenThreads() throws InterruptedException {
    Journal wide = new Journal(1 << 20);
    int readers = 3;
    // one batch each at most: nobody lags by too many
    int marks = Batches.KEPT_MAX - 1;
    CountDownLatch listening = new CountDownLatch(readers);
    List<Set<ApplicationId>> seen = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int r = 0; r < readers; r++) {
      Set<ApplicationId> mine = new HashSet<>();
      seen.add(mine);
      Feed feed = wide.feed();
      Thread reader = new Thread(() -> {
        feed.take();
        listening.countDown();
        while (!mine.contains(app(marks))) {
          mine.addAll(feed.take().usages());
        }
      });
      reader.setDaemon(true);
      threads.add(reader);
    }
    threads.forEach(Thread::start);
    listening.await();
    List<Thread> markers = new ArrayList<>();
    for (int t = 0; t < 2; t++) {
      int parity = t;
      markers.add(new Thread(() -> {
        for (int i = parity; i < marks; i += 2) {
          wide.usageChanged(app(i));
        }
      }));
    }
    markers.forEach(Thread::start);
    for (Thread marker : markers) {
      marker.join();
    }
    wide.usageChanged(app(marks));
    for (Thread thread : threads) {
      thread.join(120_000);
      assertFalse(thread.isAlive(), "a reader has not heard of the last mark");
    }
    seen.forEach(mine -> assertEquals(marks + 1, mine.size()));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.junit.jupiter.api.Test;

class JournalTest {
  private static ApplicationId app(int id) {
    return ApplicationId.newInstance(1, id);
  }

  private static Journal drained(int capacity) {
    Journal journal = new Journal(capacity, () -> { });
    journal.take();
    return journal;
  }

  @Test
  void aNewJournalAsksForASnapshotOnce() {
    Journal journal = new Journal(10, () -> { });
    journal.applicationChanged(app(1));
    Journal.Changes first = journal.take();
    assertTrue(first.snapshot);
    assertTrue(first.applications.isEmpty());
    assertFalse(journal.take().snapshot);
  }

  @Test
  void marksAreKeptOnceAndHandedOverOnce() {
    Journal journal = drained(10);
    for (int i = 0; i < 3; i++) {
      journal.nodeChanged(NodeId.newInstance("n1", 1));
      journal.asksChanged(app(1), false);
      journal.applicationChanged(app(2));
      journal.queuesChanged();
      journal.mark(changes -> changes.allNodes = true);
    }
    Journal.Changes changes = journal.take();
    assertEquals(1, changes.nodes.size());
    assertEquals(Collections.singletonMap(app(1), false), changes.asks);
    assertEquals(Collections.singleton(app(2)), changes.applications);
    assertTrue(changes.queues && changes.allNodes);
    Journal.Changes next = journal.take();
    assertFalse(next.queues || next.allNodes || next.snapshot);
    assertEquals(0, next.size());
  }

  @Test
  void moreMarksThanFitAreForgottenForASnapshot() {
    Journal journal = drained(100);
    for (int i = 0; i < 100; i++) {
      journal.applicationChanged(app(i));
    }
    assertFalse(journal.isPaused());
    journal.applicationChanged(app(100));
    assertTrue(journal.isPaused());
    for (int i = 0; i < 1000; i++) {
      journal.applicationChanged(app(i));
    }
    Journal.Changes changes = journal.take();
    assertTrue(changes.snapshot);
    assertEquals(0, changes.size());
  }

  @Test
  void noMarkIsLostBetweenThreads() throws InterruptedException {
    Journal journal = drained(1 << 20);
    int threads = 4;
    int marks = 20_000;
    CountDownLatch done = new CountDownLatch(threads);
    List<Thread> markers = new ArrayList<>();
    for (int t = 0; t < threads; t++) {
      int first = t * marks;
      markers.add(new Thread(() -> {
        for (int i = 0; i < marks; i++) {
          journal.applicationChanged(app(first + i));
        }
        done.countDown();
      }));
    }
    markers.forEach(Thread::start);
    Set<ApplicationId> seen = new HashSet<>();
    while (done.getCount() > 0) {
      seen.addAll(journal.take().applications);
    }
    for (Thread marker : markers) {
      marker.join();
    }
    seen.addAll(journal.take().applications);
    assertEquals(threads * marks, seen.size());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock.WriteLock;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A transaction is committed in batches, with its AM kept out; what cannot be committed as a whole is taken back. */
class GangsTest {
  private static final int BATCH = 2;
  private static final int GANG = 5;

  private ClusterFixture cluster;
  private Proposer proposer;
  private MockNM node;
  private RMApp app;
  private MockAM am;

  @BeforeEach
  void start() throws Exception {
    cluster = ClusterFixture.cluster().start();
    node = cluster.node("one", 64 * 1024, 64);
    app = cluster.submit("a", "u", 1024);
    am = cluster.startAm(app, node);
    cluster.scheduler().setClosed(true);
    am.allocate("*", 1024, GANG, Collections.emptyList());
    proposer = new Proposer(cluster, new CommitSettings(BATCH, Proposer.NODE_STALE_MS, Time::monotonicNow));
  }

  @AfterEach
  void stop() {
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
    cluster.close();
  }

  private int containers() {
    return attempt().getLiveContainers().size() - 1;
  }

  private FiCaSchedulerApp attempt() {
    return cluster.attempt(app);
  }

  private int asked() {
    return attempt().getOutstandingAsksCount(Proposer.key(attempt(), 1));
  }

  /** Whether another thread, that of its AM, would have to wait to ask. */
  private boolean isKeptOut() {
    Lock lock = proposer.committer().asksOf(attempt().getApplicationAttemptId());
    return CompletableFuture.supplyAsync(() -> {
      boolean free = lock.tryLock();
      if (free) {
        lock.unlock();
      }
      return !free;
    }).join();
  }

  @Test
  void aGangIsCommittedInBatchesAndItsAmIsKeptOutUntilTheLast() {
    List<String> seen = new ArrayList<>();
    WriteLock write = (WriteLock) cluster.scheduler().writeLock();
    CommitResult result = proposer.add(GANG, attempt(), 1, node).mayCommit(() -> {
      seen.add(containers() + (isKeptOut() ? " kept out " : " ") + (write.isHeldByCurrentThread() ? "write" : "read"));
      return true;
    }).commitTogether();
    assertEquals(GANG, result.count(Fate.COMMITTED));
    assertEquals("[0 kept out read, 0 kept out write, 2 kept out write, 4 kept out write]", seen.toString());
    assertFalse(isKeptOut());
    assertEquals(0, result.takenBack());
  }

  @Test
  void aHeartbeatThatWaitsEndsABatchAndNotTheGang() {
    cluster.scheduler().heartbeatWaits(() -> {
      // longer than a batch is held in any case
      for (long end = System.nanoTime() + 1_000_000; System.nanoTime() - end < 0; ) {
        Thread.yield();
      }
      return true;
    });
    AtomicInteger holds = new AtomicInteger();
    CommitResult result =
        proposer.add(GANG, attempt(), 1, node).mayCommit(() -> holds.incrementAndGet() > 0).commitTogether();
    assertEquals(GANG, result.count(Fate.COMMITTED));
    assertEquals(1 + GANG, holds.get(), "it is judged, and each container is a batch");
  }

  @Test
  void whatFailsInALaterBatchIsTakenBackUnseen() throws Exception {
    AtomicInteger batches = new AtomicInteger();
    CommitResult result = proposer.add(GANG, attempt(), 1, node).mayCommit(() -> {
      if (batches.incrementAndGet() == 3) {
        assertEquals(BATCH, containers());
        cluster.scheduler().rejectNextCommit();
      }
      return true;
    }).commitTogether();
    assertEquals(1, result.count(Fate.STALE_STATE));
    assertEquals(GANG - 1, result.count(Fate.TRANSACTION));
    assertEquals(Fate.STALE_STATE, result.fate(BATCH));
    assertEquals(0, result.count(Fate.COMMITTED) + result.count(Fate.OBSERVED));
    assertEquals(1, result.takenBack());
    cluster.rm().drainEvents();
    assertEquals(0, containers());
    assertEquals(GANG, asked(), "it is asked for again");
    assertTrue(am.allocate("*", 1024, GANG, Collections.emptyList()).getAllocatedContainers().isEmpty());
    assertEquals(GANG, proposer.mayCommit(() -> true).add(GANG, attempt(), 1, node)
        .commitTogether().count(Fate.COMMITTED));
  }

  @Test
  void aGangThatLosesTheLeaseIsTakenBack() {
    AtomicInteger batches = new AtomicInteger();
    CommitResult result =
        proposer.add(GANG, attempt(), 1, node).mayCommit(() -> batches.incrementAndGet() < 4).commitTogether();
    assertEquals(GANG, result.count(Fate.LEASE_LOST));
    cluster.rm().drainEvents();
    assertEquals(0, containers());
    assertEquals(1, result.takenBack());
  }

  @Test
  void aGangThatCannotBeAsAWholeChangesNothing() {
    int before = cluster.scheduler().commits();
    CommitResult result = proposer.add(GANG + 1, attempt(), 1, node).commitTogether();
    assertEquals(1, result.count(Fate.NO_PENDING_ASK));
    assertEquals(GANG, result.count(Fate.TRANSACTION));
    assertEquals(before, cluster.scheduler().commits());
    assertEquals(0, result.takenBack());
  }

  @Test
  void theLimitDoesNotCutAGang() {
    assertEquals(GANG, proposer.limit(1).add(GANG, attempt(), 1, node).commitTogether().count(Fate.COMMITTED));
    assertEquals(1, proposer.limit(0).add(1, 0, 0).commitTogether().count(Fate.OVER_BATCH));
  }

  @Test
  void eachAttemptHasALockOfItsOwn() throws Exception {
    Committer asks = proposer.committer();
    ApplicationAttemptId mine = attempt().getApplicationAttemptId();
    RMApp other = cluster.submit("a", "u", 1024);
    Lock lock = asks.asksOf(mine);
    assertSame(lock, asks.asksOf(mine));
    assertNotSame(lock, asks.asksOf(cluster.attempt(other).getApplicationAttemptId()));
  }

  @Test
  void aLockThatNoThreadRefersToGoes() throws Exception {
    WeakReference<Lock> lock = new WeakReference<>(proposer.committer().asksOf(attempt().getApplicationAttemptId()));
    Await.until("it goes", () -> {
      System.gc();
      return lock.get() == null;
    });
  }
}

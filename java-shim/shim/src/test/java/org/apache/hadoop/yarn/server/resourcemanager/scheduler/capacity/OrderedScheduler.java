// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.CommitPipeline;
import io.treadle.shim.Shim;
import io.treadle.shim.commit.Committer;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Function;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;

/** A TreadleScheduler that watches in which order threads take its locks and the shim's. One test at a time. */
public class OrderedScheduler extends TreadleScheduler {
  /** In the order in which a thread may take them. */
  enum Rank {
    ATTEMPT, SCHEDULER, QUEUE_OR_APPLICATION
  }

  private static final Set<String> VIOLATIONS = Collections.synchronizedSet(new TreeSet<>());
  private static final Set<Set<Rank>> HELD = Collections.synchronizedSet(new HashSet<>());
  private static final ThreadLocal<Map<Rank, Integer>> MINE = ThreadLocal.withInitial(() -> new EnumMap<>(Rank.class));

  /** Those of attempts that have not gone. */
  final Map<ApplicationAttemptId, Lock> askLocks = new AskLocksMap();
  /** Root and its leaf, once they are watched. */
  private volatile List<AbstractCSQueue> queues = Collections.emptyList();

  /** One whose own locks are watched from the beginning. */
  public OrderedScheduler() throws ReflectiveOperationException {
    ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    put(AbstractYarnScheduler.class, "readLock", this, new WatchedReadLock(lock));
    put(AbstractYarnScheduler.class, "writeLock", this, new WatchedWriteLock(lock));
  }

  /** Begins a test: watches the locks of attempts too. */
  void watchAskLocks() throws ReflectiveOperationException {
    Object pipeline = get(Shim.class, "pipeline", shim());
    put(Committer.class, "askLocks", get(CommitPipeline.class, "committer", pipeline), askLocks);
    queues = Arrays.asList((AbstractCSQueue) getRootQueue(), (AbstractCSQueue) getQueue("default"));
    VIOLATIONS.clear();
    HELD.clear();
  }

  /** What was taken against the order since then. */
  static Set<String> violations() {
    return VIOLATIONS;
  }

  /** Whether a thread held locks of these ranks, and no others, at a time. */
  static boolean held(Rank first, Rank... more) {
    return HELD.contains(EnumSet.of(first, more));
  }

  private static Object get(Class<?> owner, String name, Object of) throws ReflectiveOperationException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  private static void put(Class<?> owner, String name, Object of, Object value) throws ReflectiveOperationException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    field.set(of, value);
  }

  private void take(Rank rank, boolean again) {
    Map<Rank, Integer> mine = MINE.get();
    for (Rank held : Rank.values()) {
      if (mine.getOrDefault(held, 0) > 0 && held.compareTo(rank) > 0) {
        report(rank + " while it has " + held);
      }
    }
    if (rank == Rank.ATTEMPT && !again && mine.getOrDefault(rank, 0) > 0) {
      report("a second lock of an attempt");
    }
    if (!again && holdsQueueOrApplication()) {
      report(rank + " while it has " + Rank.QUEUE_OR_APPLICATION);
    }
    mine.merge(rank, 1, Integer::sum);
    Set<Rank> now = EnumSet.noneOf(Rank.class);
    mine.forEach((held, times) -> {
      if (times > 0) {
        now.add(held);
      }
    });
    HELD.add(now);
  }

  private static void release(Rank rank) {
    MINE.get().merge(rank, -1, Integer::sum);
  }

  private static void report(String what) {
    StringBuilder text = new StringBuilder(Thread.currentThread().getName() + " takes " + what);
    Arrays.stream(new Throwable().getStackTrace()).skip(3).limit(8).forEach(frame -> text.append("\n  ").append(frame));
    VIOLATIONS.add(text.toString());
  }

  private boolean holdsQueueOrApplication() {
    return queues.stream().anyMatch(queue -> queue.writeLock.isHeldByCurrentThread())
        || !queues.isEmpty() && getSchedulerApplications().values().stream()
        .anyMatch(each -> each.getCurrentAppAttempt() != null && holds(each.getCurrentAppAttempt()));
  }

  private static boolean holds(SchedulerApplicationAttempt attempt) {
    try {
      return ((ReentrantReadWriteLock.WriteLock) get(SchedulerApplicationAttempt.class, "writeLock", attempt))
          .isHeldByCurrentThread();
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private final class AskLocksMap extends ConcurrentHashMap<ApplicationAttemptId, Lock> {
    private static final long serialVersionUID = 1L;

    @Override
    public Lock computeIfAbsent(ApplicationAttemptId attempt,
        Function<? super ApplicationAttemptId, ? extends Lock> made) {
      return super.computeIfAbsent(attempt, any -> new WatchedLock(Rank.ATTEMPT));
    }
  }

  private final class WatchedLock extends ReentrantLock {
    private static final long serialVersionUID = 1L;
    private final Rank rank;

    WatchedLock(Rank rank) {
      this.rank = rank;
    }

    @Override
    public void lock() {
      take(rank, isHeldByCurrentThread());
      super.lock();
    }

    @Override
    public void unlock() {
      super.unlock();
      release(rank);
    }
  }

  private final class WatchedReadLock extends ReentrantReadWriteLock.ReadLock {
    private static final long serialVersionUID = 1L;
    private final ReentrantReadWriteLock both;

    WatchedReadLock(ReentrantReadWriteLock both) {
      super(both);
      this.both = both;
    }

    @Override
    public void lock() {
      take(Rank.SCHEDULER, both.isWriteLockedByCurrentThread() || both.getReadHoldCount() > 0);
      super.lock();
    }

    @Override
    public void unlock() {
      super.unlock();
      release(Rank.SCHEDULER);
    }
  }

  private final class WatchedWriteLock extends ReentrantReadWriteLock.WriteLock {
    private static final long serialVersionUID = 1L;
    private final ReentrantReadWriteLock both;

    WatchedWriteLock(ReentrantReadWriteLock both) {
      super(both);
      this.both = both;
    }

    @Override
    public void lock() {
      take(Rank.SCHEDULER, both.isWriteLockedByCurrentThread());
      super.lock();
    }

    @Override
    public void unlock() {
      super.unlock();
      release(Rank.SCHEDULER);
    }
  }
}

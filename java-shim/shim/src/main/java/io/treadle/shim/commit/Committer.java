// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.LeafQueues;
import io.treadle.shim.Log;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/**
 * Turns proposals into containers, one {@code tryCommit} each, or into the reason why not (optimistic concurrency as in
 * Omega: whatever has changed since the engine looked costs a rejection, never a limit). A proposal is checked for what
 * {@code tryCommit} leaves out, then {@code tryCommit} decides, then, if it said no, {@link Diagnosis} looks for the
 * reason. Used by one thread, the link's; the scheduler's lock is held for a batch at a time.
 */
public final class Committer {
  private static final Log LOG = new Log(Committer.class);
  private static final BooleanSupplier ALWAYS = () -> true;

  /**
   * A heartbeat that waits gets the lock after so long, but after at least one proposal. In a warm RM handing the lock
   * over costs as much as a few commits; in a cold one commits are slower.
   */
  private static final long LEAST_HOLD_NANOS = TimeUnit.MICROSECONDS.toNanos(100);

  private final SchedulerPort port;
  private final CommitSettings settings;
  private final CommitListener listener;
  private final Reservations reservations;
  private final Checks checks;
  private final Diagnosis diagnosis;
  private final Placement placement = new Placement();
  private final Gangs gangs;
  private final AskLocks asks;

  /**
   * Makes a committer.
   *
   * @param listener called with errors and limits, with the lock held
   * @param asks keep AMs from changing their asks
   * @param view what is held on nodes stays free
   */
  public Committer(SchedulerPort port, CommitSettings settings, CommitListener listener, AskLocks asks,
      EngineView view) {
    this.port = port;
    this.settings = settings;
    this.listener = listener;
    this.reservations = new Reservations(port);
    this.checks = new Checks(port.scheduler(), settings, view);
    this.diagnosis = new Diagnosis(port.scheduler());
    this.gangs = new Gangs(port.scheduler(), checks, diagnosis, listener);
    this.asks = asks;
  }

  /**
   * Commits what an engine proposes, in its order. Takes the scheduler's write lock for each batch and lets go of it
   * between batches. Never throws: an exception in one proposal is that proposal's {@link Fate#INTERNAL_ERROR}.
   *
   * @param directory what the indices of the answer mean
   * @param limit how many proposals of the answer are looked at, and all of the last transaction among them; the rest
   *     is {@link Fate#OVER_BATCH}
   * @param mayCommit asked at the beginning of each batch, with the lock held: when it turns false the rest is {@link
   *     Fate#LEASE_LOST}
   * @param time when it is over, what has not been looked at is {@link Fate#OVER_BATCH} too; the first batch always is
   */
  public CommitResult commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      CommitTime time) {
    CommitResult result = new CommitResult(answer.size());
    Run run = new Run(answer, directory, result, null);
    inBatches(run, limit, port.writeLock(), mayCommit, time);
    return result;
  }

  /**
   * Says what would become of each proposal, and changes nothing. Each is judged as if those before it in the answer
   * that fit had been committed.
   *
   * @return for each proposal {@link Fate#OBSERVED} or the reason against it
   */
  public CommitResult judge(ProposalFrame answer, Directory directory, int limit) {
    CommitResult result = new CommitResult(answer.size());
    Run run = new Run(answer, directory, result, new Assumptions());
    inBatches(run, limit, port.readLock(), ALWAYS, new CommitTime(System::nanoTime, Long.MAX_VALUE / 2));
    return result;
  }

  private void inBatches(Run run, int limit, Lock lock, BooleanSupplier mayGoOn, CommitTime time) {
    int size = run.answer.size();
    int end = run.answer.endWithin(limit);
    run.result.setAll(end, size, Fate.OVER_BATCH);
    for (int from = 0; from < end; ) {
      if (from > 0 && time.isOver()) {
        run.result.setAll(from, end, Fate.OVER_BATCH);
        time.leaveOver(end - from);
        return;
      }
      int next = batchOrGang(run, from, end, lock, mayGoOn);
      if (next < 0) {
        run.result.setAll(from, end, Fate.LEASE_LOST);
        return;
      }
      from = next;
      if (from < end) {
        letOthersIn();
      }
    }
  }

  /** The scheduler's lock is not fair: without a pause this thread would take it again before any that waits. */
  static void letOthersIn() {
    LockSupport.parkNanos(1);
  }

  /** A batch or a transaction; answers where to go on, -1 if nothing may be committed. */
  private int batchOrGang(Run run, int from, int end, Lock lock, BooleanSupplier mayGoOn) {
    int most = Math.min(end, from + settings.batchSize);
    int to = run.answer.endOfTransaction(from);
    if (to == from + 1) {
      while (to < most && run.answer.endOfTransaction(to) == to + 1) {
        to++;
      }
      return lockedBatch(run, from, to, lock, mayGoOn, false);
    }
    ApplicationAttemptId attempt = to - from > ProposalFrame.TRANSACTION_MAX ? null : run.onlyAttempt(from, to);
    if (attempt == null) {
      run.result.setAll(from, to, Fate.TRANSACTION);
      return to;
    }
    if (run.assumptions != null) {
      return judgeGang(run, from, to, run.assumptions, mayGoOn) < 0 ? -1 : to;
    }
    Lock am = asks.of(attempt);
    am.lock();
    try {
      return gang(run, from, to, mayGoOn);
    } finally {
      am.unlock();
    }
  }

  /**
   * A transaction, with its AM kept out: it is judged first, and then committed in batches, between which others get
   * the scheduler's lock. What they do there may be in the way of the rest: then all of it is taken back.
   */
  private int gang(Run run, int from, int to, BooleanSupplier mayGoOn) {
    int judged = judgeGang(run, from, to, new Assumptions(), mayGoOn);
    if (judged <= 0) {
      return judged < 0 ? -1 : to;
    }
    int at = from;
    while (at >= 0 && at < to) {
      letOthersIn();
      int next = lockedBatch(run, at, Math.min(to, at + settings.batchSize), port.writeLock(), mayGoOn, true);
      if (next < 0 || run.result.fate(next - 1) != Fate.COMMITTED) {
        gangs.takeBack(run.result, from, to);
        return next < 0 ? -1 : to;
      }
      at = next;
    }
    return to;
  }

  /** Judges a transaction under the read lock: 1 if it may be committed, 0 if not, -1 if nothing may be. */
  private int judgeGang(Run run, int from, int to, Assumptions assumptions, BooleanSupplier mayGoOn) {
    boolean[] good = new boolean[1];
    int next = locked(run, from, to, port.readLock(), mayGoOn, () -> {
      good[0] = gangs.judge(run.answer, from, to, run.result, run.cluster, assumptions);
      return to;
    });
    if (next < 0) {
      return -1;
    }
    return good[0] ? 1 : 0;
  }

  /** Goes on until {@code to}, until a heartbeat waits, or, of a transaction, until one cannot be committed. */
  private int lockedBatch(Run run, int from, int to, Lock lock, BooleanSupplier mayGoOn, boolean transaction) {
    return locked(run, from, to, lock, mayGoOn, () -> {
      int position = from;
      long least = System.nanoTime() + LEAST_HOLD_NANOS;
      do {
        run.next(position);
        position++;
      } while (position < to && !(transaction && run.result.fate(position - 1).isRejection())
          && (!port.heartbeatWaits() || System.nanoTime() - least < 0));
      return position;
    });
  }

  /** Does work under a lock; answers where to go on, which the work says, -1 if nothing may be committed. */
  private int locked(Run run, int from, int to, Lock lock, BooleanSupplier mayGoOn, IntSupplier work) {
    lock.lock();
    try {
      if (!mayGoOn.getAsBoolean()) {
        return -1;
      }
      if (!isReady()) {
        run.result.setAll(from, to, Fate.NOT_READY);
        return to;
      }
      run.begin();
      return work.getAsInt();
    } finally {
      try {
        run.end();
      } finally {
        lock.unlock();
      }
    }
  }

  /** The gate that the stock scheduler keeps closed for a while after a restart, until nodes have come back. */
  public boolean isReady() {
    RMContext context = port.rmContext();
    return !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
  }

  /** One answer on its way through the batches. With assumptions it is judged, without it is committed. */
  private final class Run {
    private final ProposalFrame answer;
    private final Directory directory;
    private final CommitResult result;
    private final Assumptions assumptions;
    private final CapacityScheduler scheduler = port.scheduler();
    /** The proposals before {@link #takenUpTo} that were taken; looked up, and so filled, only for repeated ones. */
    private final Set<List<Integer>> taken = new HashSet<>();
    private int takenUpTo;
    private Resource cluster;

    Run(ProposalFrame answer, Directory directory, CommitResult result, Assumptions assumptions) {
      this.answer = answer;
      this.directory = directory;
      this.result = result;
      this.assumptions = assumptions;
    }

    void begin() {
      cluster = scheduler.getClusterResource();
      checks.begin(directory);
    }

    void end() {
      checks.end();
      placement.clear();
    }

    void next(int position) {
      ContainerId container = null;
      Fate fate;
      try {
        fate = checks.check(
            answer.application(position), answer.requestKey(position), answer.node(position), placement);
        if (fate != null) {
          fate = afterCheck(fate, position);
        } else if (assumptions != null) {
          fate = judged(position);
        } else {
          container = ContainerCommit.tryCommit(scheduler, cluster, placement);
          fate = container == null ? diagnosed(position) : Fate.COMMITTED;
        }
      } catch (Throwable e) {
        container = null;
        fate = Fate.INTERNAL_ERROR;
        LOG.failure("a proposal", e);
        listener.internalError(e);
      }
      result.set(position, fate, container);
    }

    /** The attempt that all rows are for; null if they are for several, or for none that is known. */
    private ApplicationAttemptId onlyAttempt(int from, int to) {
      int application = answer.application(from);
      for (int row = from + 1; row < to; row++) {
        if (answer.application(row) != application) {
          return null;
        }
      }
      return directory.applicationOrNull(application);
    }

    private Fate afterCheck(Fate fate, int position) {
      if (fate == Fate.NODE_RESERVED && assumptions == null) {
        reservations.releaseLocked(placement.node);
      }
      return fate == Fate.NO_PENDING_ASK && isRepeated(position) ? Fate.DUPLICATE : fate;
    }

    private Fate judged(int position) {
      Fate reason = diagnosis.reasonAgainst(placement, cluster, assumptions);
      if (reason == null) {
        assumptions.add(placement, LeafQueues.user(placement.leaf, placement.app.getUser()));
        return Fate.OBSERVED;
      }
      return afterCheck(reason, position);
    }

    private Fate diagnosed(int position) {
      Fate reason = diagnosis.reasonAgainst(placement, cluster, Assumptions.NONE);
      if (reason == null) {
        return Fate.STALE_STATE;
      }
      if (diagnosis.queue() != null) {
        listener.limitReached(reason, diagnosis.queue());
      }
      return afterCheck(reason, position);
    }

    /** Whether an identical proposal of this answer was taken before. Only asked when no ask is left. */
    private boolean isRepeated(int position) {
      for (; takenUpTo < position; takenUpTo++) {
        if (!result.fate(takenUpTo).isRejection()) {
          taken.add(proposal(takenUpTo));
        }
      }
      return taken.contains(proposal(position));
    }

    private List<Integer> proposal(int position) {
      return Arrays.asList(answer.application(position), answer.requestKey(position), answer.node(position));
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.EngineView;
import io.treadle.shim.LeafQueues;
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

/**
 * Turns proposals into containers, one {@code tryCommit} each, or into the reason why not (optimistic concurrency as in
 * Omega: whatever has changed since the engine looked costs a rejection, never a limit). A proposal is checked for what
 * {@code tryCommit} leaves out, then {@code tryCommit} decides, then, if it said no, {@link Diagnosis} looks for the
 * reason. Used by one thread, the link's; the scheduler's lock is held for a batch at a time.
 */
public final class Committer {
  private static final BooleanSupplier ALWAYS = () -> true;

  /**
   * A heartbeat that waits gets the lock after so long, but after at least one proposal. In a warm RM handing the lock
   * over costs as much as a few commits; in a cold one commits are slower.
   */
  private static final long LEAST_HOLD_NANOS = TimeUnit.MICROSECONDS.toNanos(100);

  private final SchedulerPort port;
  private final CommitSettings settings;
  private final EngineView view;
  final Diagnosis diagnosis;
  private final Gangs gangs;
  private final AskLocks asks;

  /**
   * Makes a committer.
   *
   * @param asks keep AMs from changing their asks
   * @param view what is held on nodes stays free
   */
  public Committer(SchedulerPort port, CommitSettings settings, AskLocks asks, EngineView view) {
    this.port = port;
    this.settings = settings;
    this.view = view;
    this.diagnosis = new Diagnosis(port.scheduler());
    this.gangs = new Gangs(port.scheduler(), diagnosis);
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
   * @param isOver asked between batches: when it turns true, what is left is {@link Fate#OVER_BATCH} too
   */
  public CommitResult commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      BooleanSupplier isOver) {
    return inBatches(new Run(answer, directory, mayCommit, null), limit, port.writeLock(), isOver);
  }

  /**
   * Says what would become of each proposal, and changes nothing. Each is judged as if those before it in the answer
   * that fit had been committed.
   *
   * @return for each proposal {@link Fate#OBSERVED} or the reason against it
   */
  public CommitResult judge(ProposalFrame answer, Directory directory, int limit) {
    return inBatches(new Run(answer, directory, ALWAYS, new Assumptions()), limit, port.readLock(), () -> false);
  }

  private CommitResult inBatches(Run run, int limit, Lock lock, BooleanSupplier isOver) {
    int end = run.answer.endWithin(limit);
    run.result.setAll(end, run.answer.size(), Fate.OVER_BATCH);
    int from = 0;
    while (from < end && !run.stopped && (from == 0 || !isOver.getAsBoolean())) {
      if (from > 0) {
        letOthersIn();
      }
      from = batchOrGang(run, from, end, lock);
    }
    run.result.setAll(from, end, run.stopped ? Fate.LEASE_LOST : Fate.OVER_BATCH);
    return run.result;
  }

  /** The scheduler's lock is not fair: without a pause this thread would take it again before any that waits. */
  static void letOthersIn() {
    LockSupport.parkNanos(1);
  }

  /** A batch or a transaction; answers where to go on, or, if the run was stopped, from where on nothing is left. */
  private int batchOrGang(Run run, int from, int end, Lock lock) {
    int most = Math.min(end, from + settings.batchSize);
    int to = run.answer.endOfTransaction(from);
    if (to == from + 1) {
      while (to < most && run.answer.endOfTransaction(to) == to + 1) {
        to++;
      }
      return lockedBatch(run, from, to, lock, false);
    }
    ApplicationAttemptId attempt = to - from > ProposalFrame.TRANSACTION_MAX ? null : run.onlyAttempt(from, to);
    if (attempt == null) {
      run.result.setAll(from, to, Fate.TRANSACTION);
    } else if (run.assumptions != null) {
      judgeGang(run, from, to, run.assumptions);
    } else {
      Lock am = asks.of(attempt);
      am.lock();
      try {
        gang(run, from, to);
      } finally {
        am.unlock();
      }
    }
    return run.stopped ? from : to;
  }

  /**
   * A transaction, with its AM kept out: it is judged first, and then committed in batches, between which others get
   * the scheduler's lock. What they do there may be in the way of the rest: then all of it is taken back.
   */
  private void gang(Run run, int from, int to) {
    boolean good = judgeGang(run, from, to, new Assumptions());
    for (int at = from; good && at < to; ) {
      letOthersIn();
      at = lockedBatch(run, at, Math.min(to, at + settings.batchSize), port.writeLock(), true);
      good = !run.stopped && run.result.fate(at - 1) == Fate.COMMITTED;
      if (!good) {
        gangs.takeBack(run.result, from, to);
      }
    }
  }

  /** Judges a transaction under the read lock; answers whether it may be committed. */
  private boolean judgeGang(Run run, int from, int to, Assumptions assumptions) {
    locked(run, from, to, port.readLock(), () -> {
      gangs.judge(run.answer, from, to, run.result, run.checks, assumptions);
      return to;
    });
    return run.result.fate(from) == Fate.OBSERVED;
  }

  /** Goes on until {@code to}, until a heartbeat waits, or, of a transaction, until one cannot be committed. */
  private int lockedBatch(Run run, int from, int to, Lock lock, boolean transaction) {
    return locked(run, from, to, lock, () -> {
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

  /** Does work under a lock; answers where to go on, which the work says, {@code from} if the run was stopped. */
  private int locked(Run run, int from, int to, Lock lock, IntSupplier work) {
    lock.lock();
    try {
      run.stopped = !run.mayGoOn.getAsBoolean();
      if (run.stopped) {
        return from;
      }
      if (!isReady()) {
        run.result.setAll(from, to, Fate.NOT_READY);
        return to;
      }
      run.cluster = port.scheduler().getClusterResource();
      run.checks = checks(run.directory);
      return work.getAsInt();
    } finally {
      lock.unlock();
    }
  }

  /** Checks of one batch. */
  Checks checks(Directory directory) {
    return new Checks(port.scheduler(), settings, view, directory);
  }

  /** The gate that the stock scheduler keeps closed for a while after a restart, until nodes have come back. */
  public boolean isReady() {
    RMContext context = port.scheduler().getRMContext();
    return !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
  }

  /** One answer on its way through the batches. With assumptions it is judged, without it is committed. */
  private final class Run {
    private final ProposalFrame answer;
    private final Directory directory;
    private final BooleanSupplier mayGoOn;
    private final Assumptions assumptions;
    private final CommitResult result;
    /** The proposals before {@link #takenUpTo} that were taken; looked up, and so filled, only for repeated ones. */
    private final Set<List<Integer>> taken = new HashSet<>();
    private int takenUpTo;
    /** Nothing may be committed any more. */
    private boolean stopped;
    /** Of the batch. */
    private Resource cluster;
    private Checks checks;

    Run(ProposalFrame answer, Directory directory, BooleanSupplier mayGoOn, Assumptions assumptions) {
      this.answer = answer;
      this.directory = directory;
      this.mayGoOn = mayGoOn;
      this.assumptions = assumptions;
      this.result = new CommitResult(answer.size());
    }

    void next(int position) {
      ContainerId container = null;
      Fate fate;
      try {
        Placement placement = new Placement();
        fate = checks.check(answer.application(position), answer.requestKey(position), answer.node(position), placement,
            Assumptions.NONE);
        if (fate == null && assumptions == null) {
          container = TreadleCommitRequest.tryCommit(port.scheduler(), cluster, placement);
        }
        if (fate == null && container == null) {
          fate = diagnosis.reasonAgainst(placement, assumptions == null ? Assumptions.NONE : assumptions);
        }
        if (fate != null) {
          fate = refused(fate, position, placement);
        } else if (assumptions != null) {
          assumptions.add(placement, LeafQueues.user(placement.leaf, placement.app.getUser()));
          fate = Fate.OBSERVED;
        } else {
          fate = container == null ? Fate.STALE_STATE : Fate.COMMITTED;
        }
      } catch (Throwable e) {
        container = null;
        fate = Fate.INTERNAL_ERROR;
        result.failed("a proposal", e);
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

    private Fate refused(Fate fate, int position, Placement placement) {
      if (fate == Fate.NODE_RESERVED && assumptions == null) {
        Reservations.releaseLocked(port.scheduler(), placement.node);
      }
      return fate == Fate.NO_PENDING_ASK && isRepeated(position) ? Fate.DUPLICATE : fate;
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

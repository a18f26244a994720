package io.treadle.shim.commit;

import io.treadle.shim.LeafQueues;
import io.treadle.shim.Log;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.engines.NodeCommits;
import io.treadle.shim.engines.Served;
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
 * reason. Used by one thread, the link's; the scheduler's lock is held for a batch, or a transaction, at a time.
 */
public final class Committer {
  private static final Log LOG = new Log(Committer.class);
  /** The engine that this thread commits for, -1 for none: how {@code tryCommit} distinguishes ours from native ones. */
  private static final ThreadLocal<Integer> COMMITTING = ThreadLocal.withInitial(() -> -1);

  private static final BooleanSupplier ALWAYS = () -> true;

  /** The most proposals that may be one transaction. */
  public static final int TRANSACTION_MAX = Gangs.ROWS_MAX;

  /**
   * A heartbeat that waits gets the lock after so long, but after at least one proposal. In a warm RM handing the lock over
   * costs as much as a few commits; in a cold one commits are slower.
   */
  private static final long LEAST_HOLD_NANOS = TimeUnit.MICROSECONDS.toNanos(100);

  private final SchedulerPort port;
  private final CommitSettings settings;
  private final CommitListener listener;
  private final Served served;
  private final Reservations reservations;
  private final Checks checks;
  private final Diagnosis diagnosis;
  private final Placement placement = new Placement();
  private final Claim claim;
  private final Gangs gangs;
  private final AskLocks asks;
  private final CommitTurns turns;

  /**
   * Makes a committer of one engine.
   *
   * @param listener called with errors and limits, with the lock held
   * @param served what the engine serves: proposals for others are {@link Fate#NOT_OWNER}
   * @param asks keep AMs from changing their asks, the same for all engines of a scheduler
   * @param turns who of several commits next, the same for all
   */
  public Committer(SchedulerPort port, CommitSettings settings, CommitListener listener, Served served, AskLocks asks,
      CommitTurns turns) {
    this.port = port;
    this.settings = settings;
    this.listener = listener;
    this.served = served;
    this.reservations = new Reservations(port, listener);
    this.checks = new Checks(port.scheduler(), settings, served);
    this.diagnosis = new Diagnosis(port.scheduler());
    this.claim = new Claim(port.scheduler(), served);
    this.gangs = new Gangs(port.scheduler(), checks, diagnosis, claim, reservations, listener);
    this.asks = asks;
    this.turns = turns;
  }

  /** Whether the calling thread is committing for Treadle now. */
  public static boolean isCommitting() {
    return COMMITTING.get() >= 0;
  }

  /** The number of the engine that the calling thread is committing for now, else {@link NodeCommits#NO_ENGINE}. */
  public static int committing() {
    return isCommitting() ? COMMITTING.get() : NodeCommits.NO_ENGINE;
  }

  /** Begins commits for the engine of a number, or ends them: -1. */
  static void setCommitting(int engine) {
    COMMITTING.set(engine);
  }

  /**
   * Commits what an engine proposes, in its order. Takes the scheduler's write lock for each batch and lets go of it
   * between batches. Never throws: an exception in one proposal is that proposal's {@link Fate#INTERNAL_ERROR}.
   *
   * @param directory what the indices of the answer mean
   * @param limit how many proposals of the answer are looked at; the rest is {@link Fate#OVER_BATCH}
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
    int end = Math.min(size, Math.max(0, limit));
    run.result.setAll(end, size, Fate.OVER_BATCH);
    for (int from = 0; from < end; ) {
      if (from > 0 && time.isOver()) {
        run.result.setAll(from, end, Fate.OVER_BATCH);
        time.leaveOver(end - from);
        return;
      }
      int next = inTurn(run, from, end, lock, mayGoOn);
      if (next < 0) {
        run.result.setAll(from, end, Fate.LEASE_LOST);
        return;
      }
      from = next;
      if (from < end) {
        // the scheduler's lock is not fair: without a pause this thread would take it again before any that waits
        LockSupport.parkNanos(1);
      }
    }
  }

  /** A batch or a transaction, when it is this engine's turn; answers where to go on, -1 if nothing may be committed. */
  private int inTurn(Run run, int from, int end, Lock lock, BooleanSupplier mayGoOn) {
    if (run.assumptions != null || !served.several()) {
      return batchOrGang(run, from, end, lock, mayGoOn);
    }
    long begin = System.nanoTime();
    turns.enter(served.precedence());
    try {
      listener.waited(System.nanoTime() - begin);
      return batchOrGang(run, from, end, lock, mayGoOn);
    } finally {
      turns.leave();
    }
  }

  private int batchOrGang(Run run, int from, int end, Lock lock, BooleanSupplier mayGoOn) {
    int most = Math.min(end, from + settings.batchSize);
    if (!run.answer.hasTransactions()) {
      return lockedBatch(run, from, most, lock, mayGoOn);
    }
    int to = run.answer.endOfTransaction(from);
    if (to == from + 1) {
      while (to < most && run.answer.endOfTransaction(to) == to + 1) {
        to++;
      }
      return lockedBatch(run, from, to, lock, mayGoOn);
    }
    ApplicationAttemptId attempt = to > end || to - from > Gangs.ROWS_MAX ? null : run.onlyAttempt(from, to);
    if (attempt == null) {
      run.result.setAll(from, Math.min(to, end), Fate.TRANSACTION);
      return Math.min(to, end);
    }
    return run.assumptions == null ? gangAlone(run, from, to, attempt, mayGoOn)
        : lockedGang(run, from, to, lock, mayGoOn);
  }

  /** With neither the AM nor those who need no lock of the scheduler changing what the transaction is judged by. */
  private int gangAlone(Run run, int from, int to, ApplicationAttemptId attempt, BooleanSupplier mayGoOn) {
    Lock am = asks.of(attempt);
    am.lock();
    try {
      asks.placements().lock();
      try {
        return lockedGang(run, from, to, port.writeLock(), mayGoOn);
      } finally {
        asks.placements().unlock();
      }
    } finally {
      am.unlock();
    }
  }

  private int lockedGang(Run run, int from, int to, Lock lock, BooleanSupplier mayGoOn) {
    return locked(run, from, to, lock, mayGoOn, () -> {
      gangs.decide(run.answer, from, to, run.result, run.cluster, run.assumptions);
      return to;
    });
  }

  /** Goes on until {@code to} or until a heartbeat waits. */
  private int lockedBatch(Run run, int from, int to, Lock lock, BooleanSupplier mayGoOn) {
    return locked(run, from, to, lock, mayGoOn, () -> {
      int position = from;
      long least = System.nanoTime() + LEAST_HOLD_NANOS;
      do {
        run.next(position);
        position++;
      } while (position < to && (!port.heartbeatWaits() || System.nanoTime() - least < 0));
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
      claim.begin();
      setCommitting(assumptions == null ? served.number() : -1);
    }

    void end() {
      setCommitting(-1);
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
        } else if (claim.isExceededBy(placement, cluster, assumptions == null ? Assumptions.NONE : assumptions)) {
          fate = Fate.CLAIM;
        } else if (assumptions != null) {
          fate = judged(position);
        } else {
          container = ContainerCommit.tryCommit(scheduler, cluster, placement);
          fate = container == null ? diagnosed(position) : committed();
        }
      } catch (Throwable e) {
        container = null;
        fate = Fate.INTERNAL_ERROR;
        LOG.failure("a proposal", e);
        listener.internalError(e);
      }
      result.set(position, fate, container);
    }

    private Fate committed() {
      claim.committed(placement);
      return Fate.COMMITTED;
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
        assumptions.add(placement, LeafQueues.user(placement.leaf, placement.app.getUser()), claim);
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

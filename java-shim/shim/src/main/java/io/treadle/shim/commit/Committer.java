// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import org.apache.hadoop.thirdparty.com.google.common.collect.MapMaker;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Turns proposals into containers, one {@code tryCommit} each, or into the reason for a rejection (optimistic
 * concurrency as in Omega: changes since the engine's decision cost a rejection, never a limit). The checks that {@code
 * tryCommit} omits come first, then {@code tryCommit} decides, then, after a rejection, {@link Checks} find the reason.
 * Used by one thread, the link's; the scheduler's lock is held for a batch at a time.
 *
 * <p>A transaction of several proposals is judged first, each as if those before it were committed; a partial commit is
 * undone if the rest fails. Judging covers nearly everything that a commit checks. Until the last commit there may be
 * other changes: a node is lost, the limit of a user falls, a request with constraints is placed, a constraint is about
 * other containers of the transaction.
 */
public final class Committer {
  private static final String TAKEN_BACK = "another container of the transaction could not be placed";

  /**
   * A heartbeat that waits gets the lock after so long, but after at least one proposal. In a warm RM handing the lock
   * over costs as much as a few commits; in a cold one commits are slower.
   */
  private static final long LEAST_HOLD_NANOS = TimeUnit.MICROSECONDS.toNanos(100);

  private final SchedulerPort port;
  private final CommitSettings settings;
  private final Map<NodeId, Resource> held;
  /** By attempt; one that no thread refers to goes. */
  private final ConcurrentMap<ApplicationAttemptId, Lock> askLocks = new MapMaker().weakValues().makeMap();

  /**
   * Makes a committer.
   *
   * @param held the amounts that stay free on nodes; the link thread's
   */
  public Committer(SchedulerPort port, CommitSettings settings, Map<NodeId, Resource> held) {
    this.port = port;
    this.settings = settings;
    this.held = held;
  }

  /**
   * A lock for each attempt, held in {@code allocate}: while a transaction is committed its AM neither changes its asks
   * nor takes containers. No two attempts share one, since the RM's dispatcher calls {@code allocate} too, for attempts
   * whose AM has no container yet: it must not wait for another's transaction. Taken before any lock of the scheduler
   * (package-info). The same for as long as it is referred to. Any thread.
   */
  public Lock asksOf(ApplicationAttemptId attempt) {
    return askLocks.computeIfAbsent(attempt, any -> new ReentrantLock());
  }

  /**
   * Commits an engine's proposals in order. Takes the scheduler's write lock for each batch and releases it between
   * batches. Never throws: an exception in one proposal is that proposal's {@link Fate#INTERNAL_ERROR}.
   *
   * @param directory resolves the indices of the answer
   * @param limit how many proposals of the answer are looked at, and all of the last transaction among them; the rest
   *     is {@link Fate#OVER_BATCH}
   * @param mayCommit asked at the beginning of each batch, with the lock held: when it turns false the rest is {@link
   *     Fate#LEASE_LOST}
   * @param isOver asked between batches: when it turns true, the rest is {@link Fate#OVER_BATCH} too
   */
  public CommitResult commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      BooleanSupplier isOver) {
    return inBatches(new Run(answer, directory, mayCommit, Assumptions.NONE), limit, port.writeLock(), isOver);
  }

  /**
   * Says what would become of each proposal, and changes nothing. Each is judged as if those before it in the answer
   * that fit had been committed.
   *
   * @return for each proposal {@link Fate#OBSERVED} or the reason against it
   */
  public CommitResult judge(ProposalFrame answer, Directory directory, int limit) {
    return inBatches(new Run(answer, directory, () -> true, new Assumptions()), limit, port.readLock(), () -> false);
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
    int to = run.answer.endOfTransaction(from);
    if (to == from + 1) {
      int most = Math.min(end, from + settings.batchSize);
      int last = to;
      while (last < most && run.answer.endOfTransaction(last) == last + 1) {
        last++;
      }
      return lockedBatch(run, from, last, lock, false);
    }
    ApplicationAttemptId attempt = to - from > ProposalFrame.TRANSACTION_MAX ? null : run.onlyAttempt(from, to);
    if (attempt == null) {
      run.result.setAll(from, to, Fate.TRANSACTION);
    } else if (!run.commits()) {
      judgeGang(run, from, to, run.assumptions);
    } else {
      SchedulerPort.locked(asksOf(attempt), () -> gang(run, from, to));
    }
    return run.stopped ? from : to;
  }

  /**
   * A transaction, with its AM kept out: it is judged first, and then committed in batches, between which others get
   * the scheduler's lock. If their changes prevent the rest, all of it is undone.
   */
  private void gang(Run run, int from, int to) {
    boolean good = judgeGang(run, from, to, new Assumptions());
    for (int at = from; good && at < to; ) {
      letOthersIn();
      at = lockedBatch(run, at, Math.min(to, at + settings.batchSize), port.writeLock(), true);
      good = !run.stopped && run.result.fate(at - 1) == Fate.COMMITTED;
      if (!good) {
        run.takeBack(from, to);
      }
    }
  }

  /** Judges a transaction under the read lock; answers whether it may be committed. */
  private boolean judgeGang(Run run, int from, int to, Assumptions assumptions) {
    locked(run, from, to, port.readLock(), () -> {
      run.judge(from, to, assumptions);
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
        run.next(position, run.assumptions, false);
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
    return new Checks(port.scheduler(), settings, held, directory);
  }

  /** The gate that the stock scheduler keeps closed for a while after a restart, until nodes have come back. */
  public boolean isReady() {
    RMContext context = port.scheduler().getRMContext();
    return !context.isWorkPreservingRecoveryEnabled() || context.isSchedulerReadyForAllocatingContainers();
  }

  /**
   * Releases every reservation of the stock scheduler. While an engine schedules nothing makes any, and nothing would
   * fill one: a node reserved before the switch would stay empty. The engine holds nodes back by itself. Takes the
   * scheduler's write lock only if it finds one.
   */
  public static void releaseReservations(SchedulerPort port) {
    for (FiCaSchedulerNode node : port.scheduler().getAllNodes()) {
      if (node.getReservedContainer() != null) {
        SchedulerPort.locked(port.writeLock(), () -> releaseReservation(port.scheduler(), node));
      }
    }
  }

  /** The same of one node; the caller holds the scheduler's write lock. */
  private static void releaseReservation(CapacityScheduler scheduler, FiCaSchedulerNode node) {
    RMContainer reserved = node.getReservedContainer();
    if (reserved != null) {
      scheduler.killReservedContainer(reserved);
    }
  }

  /** One answer on its way through the batches: it is judged with assumptions, committed with none. */
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
    /** The value for the batch. */
    private Resource cluster;
    private Checks checks;

    Run(ProposalFrame answer, Directory directory, BooleanSupplier mayGoOn, Assumptions assumptions) {
      this.answer = answer;
      this.directory = directory;
      this.mayGoOn = mayGoOn;
      this.assumptions = assumptions;
      this.result = new CommitResult(answer.size());
    }

    boolean commits() {
      return assumptions == Assumptions.NONE;
    }

    /** Commits a proposal, or judges it and assumes it. */
    private Placement next(int position, Assumptions assumed, boolean ofTransaction) {
      Placement placement = new Placement();
      ContainerId container = null;
      Fate fate;
      try {
        fate = checks.check(
            answer.application(position), answer.requestKey(position), answer.node(position), placement, assumed);
        if (fate == null && assumed == Assumptions.NONE) {
          container = TreadleCommitRequest.tryCommit(port.scheduler(), cluster, placement);
        }
        if (fate == null && container == null) {
          fate = checks.reasonAgainst(placement, assumed);
        }
        if (fate != null) {
          fate = ofTransaction ? fate : refused(fate, position, placement);
        } else if (assumed != Assumptions.NONE) {
          assumed.add(placement);
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
      return placement;
    }

    /**
     * Judges a transaction of rows in [from, to): {@link Fate#OBSERVED} if none is refused. The caller holds a lock of
     * the scheduler.
     *
     * @param assumed what earlier rows would have taken; gets what these would, if none is refused
     */
    void judge(int from, int to, Assumptions assumed) {
      List<Placement> good = new ArrayList<>();
      for (int position = from; position < to; position++) {
        Placement placement = next(position, assumed, true);
        if (result.fate(position) == Fate.OBSERVED) {
          good.add(placement);
        }
      }
      if (good.size() < to - from) {
        good.forEach(assumed::remove);
        refuse(from, to);
      }
    }

    /** Rejects the remaining rows in [from, to), because another row was rejected. */
    private void refuse(int from, int to) {
      for (int position = from; position < to; position++) {
        if (!result.fate(position).isRejection()) {
          result.set(position, Fate.TRANSACTION, null);
        }
      }
    }

    /**
     * Undoes the commits of the rows in [from, to), some of which failed. The caller holds the AM's lock, so that the
     * AM does not know of them.
     */
    void takeBack(int from, int to) {
      result.countTakenBack();
      for (int position = to - 1; position >= from; position--) {
        ContainerId container = result.container(position);
        try {
          if (container != null) {
            port.scheduler().completedContainer(port.scheduler().getRMContainer(container),
                SchedulerUtils.createKilledContainerStatus(container, TAKEN_BACK), RMContainerEventType.KILL);
          }
        } catch (Throwable e) {
          result.failed("a transaction", e);
        }
      }
      refuse(from, to);
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
      if (fate == Fate.NODE_RESERVED && commits()) {
        releaseReservation(port.scheduler(), placement.node);
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

package io.treadle.shim.commit;

import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;

/**
 * Locks that keep what a transaction was judged by as it is until it is committed: AMs change their asks, and requests
 * with constraints are placed, without the scheduler's lock. They are taken before that, and used only where several
 * engines schedule. Attempts share them, so that there are few.
 */
public final class AskLocks {
  private static final int LOCKS = 256;

  private final Lock[] attempts = new Lock[LOCKS];
  private final Lock placements = new ReentrantLock();

  /** Locks that nobody holds. */
  public AskLocks() {
    for (int i = 0; i < LOCKS; i++) {
      attempts[i] = new ReentrantLock();
    }
  }

  /** Held while an attempt's asks change, and while its AM gets containers. */
  public Lock of(ApplicationAttemptId attempt) {
    int hash = attempt.hashCode();
    return attempts[Math.floorMod(hash ^ hash >>> 16, LOCKS)];
  }

  /** Held while something is placed without the scheduler's lock; taken after an attempt's. */
  public Lock placements() {
    return placements;
  }
}

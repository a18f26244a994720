// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.SchedulerPort;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * A lock for each attempt, held in {@code allocate}: while a transaction is committed its AM neither changes its asks
 * nor takes containers. No two attempts share one, since the RM's dispatcher calls {@code allocate} too, for attempts
 * whose AM has no container yet: it must not wait for another's transaction. Taken before any lock of the scheduler
 * (package-info). Any thread.
 */
public final class AskLocks {
  private final ConcurrentMap<ApplicationAttemptId, Lock> locks = new ConcurrentHashMap<>();
  private final SchedulerPort port;

  /** Of the attempts of a scheduler. */
  public AskLocks(SchedulerPort port) {
    this.port = port;
  }

  /** The lock of an attempt; one of its own for each call if the attempt has gone. */
  public Lock of(ApplicationAttemptId attempt) {
    Lock known = locks.get(attempt);
    if (known != null) {
      return known;
    }
    if (!lives(attempt)) {
      return new ReentrantLock();
    }
    Lock made = locks.computeIfAbsent(attempt, any -> new ReentrantLock());
    if (!lives(attempt)) {
      // it may have been dropped before it was made
      drop(attempt);
    }
    return made;
  }

  /** An attempt has gone. */
  public void drop(ApplicationAttemptId attempt) {
    locks.remove(attempt);
  }

  private boolean lives(ApplicationAttemptId attempt) {
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
    return app != null && app.getApplicationAttemptId().equals(attempt) && !app.isStopped();
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.thirdparty.com.google.common.collect.MapMaker;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;

/**
 * A lock for each attempt, held in {@code allocate}: while a transaction is committed its AM neither changes its asks
 * nor takes containers. No two attempts share one, since the RM's dispatcher calls {@code allocate} too, for attempts
 * whose AM has no container yet: it must not wait for another's transaction. Taken before any lock of the scheduler
 * (package-info). Any thread.
 */
public final class AskLocks {
  /** One that no thread refers to goes. */
  private final ConcurrentMap<ApplicationAttemptId, Lock> locks = new MapMaker().weakValues().makeMap();

  /** The lock of an attempt: the same for as long as it is referred to. */
  public Lock of(ApplicationAttemptId attempt) {
    return locks.computeIfAbsent(attempt, any -> new ReentrantLock());
  }
}

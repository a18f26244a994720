// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/** The shim's needs of the scheduler beyond its public methods. Implemented by TreadleScheduler, and by tests. */
public interface SchedulerPort {
  /** The scheduler itself, which owns the state. */
  CapacityScheduler scheduler();

  /** The scheduler's own read lock. */
  Lock readLock();

  /** The scheduler's own write lock. */
  Lock writeLock();

  /** Does some work under a lock. */
  static void locked(Lock lock, Runnable work) {
    lock.lock();
    try {
      work.run();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Whether a heartbeat is being handled or waits for the scheduler's lock. All heartbeats and events of applications
   * come through one thread, so a thread that holds the lock for long should let it in.
   */
  default boolean heartbeatWaits() {
    return false;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

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
   * Asks the calculator itself whether it counts a type of resource, by whether one unit of it fits into nothing. A
   * type that it ignores may be given out without end.
   */
  static boolean isCounted(ResourceCalculator calculator, int type) {
    Resource one = Resources.createResource(0, 0);
    one.setResourceValue(type, 1);
    return !calculator.fitsIn(one, Resources.createResource(0, 0));
  }

  /**
   * Whether a heartbeat is being handled or waits for the scheduler's lock. All heartbeats and events of applications
   * come through one thread, so a thread that holds the lock for long should let it in.
   */
  default boolean heartbeatWaits() {
    return false;
  }
}

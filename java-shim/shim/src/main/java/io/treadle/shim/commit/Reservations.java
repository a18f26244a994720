// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.SchedulerPort;
import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Releases the reservations that the stock scheduler made. While an engine schedules nobody makes any, and nobody would
 * fill one: a node reserved before the switch would stay empty. The engine holds nodes back by itself.
 */
public final class Reservations {
  private Reservations() { }

  /**
   * Releases every reservation there is. Called when an engine takes over, and once in a while after that. Takes the
   * scheduler's write lock only if it finds one.
   *
   * @return how many were released
   */
  public static int releaseAll(SchedulerPort port) {
    int released = 0;
    Lock lock = port.writeLock();
    for (FiCaSchedulerNode node : port.scheduler().getAllNodes()) {
      if (node.getReservedContainer() != null) {
        lock.lock();
        try {
          released += releaseLocked(port.scheduler(), node) ? 1 : 0;
        } finally {
          lock.unlock();
        }
      }
    }
    return released;
  }

  /** The same of one node, for a caller that holds the scheduler's write lock. */
  static boolean releaseLocked(CapacityScheduler scheduler, FiCaSchedulerNode node) {
    RMContainer reserved = node.getReservedContainer();
    if (reserved == null) {
      return false;
    }
    scheduler.killReservedContainer(reserved);
    return node.getReservedContainer() == null;
  }
}

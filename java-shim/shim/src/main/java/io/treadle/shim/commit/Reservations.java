// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.SchedulerPort;
import java.util.concurrent.locks.Lock;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/**
 * Releases the reservations that the stock scheduler made. While an engine schedules nobody makes any, and nobody would
 * fill one: a node reserved before the switch would stay empty. The engine holds nodes back by itself.
 */
public final class Reservations {
  private final SchedulerPort port;

  /** Reservations of one scheduler. */
  public Reservations(SchedulerPort port) {
    this.port = port;
  }

  /**
   * Releases every reservation there is. Called when an engine takes over, and once in a while after that. Takes the
   * scheduler's write lock only if it finds one.
   *
   * @return how many were released
   */
  public int releaseAll() {
    int released = 0;
    for (FiCaSchedulerNode node : port.scheduler().getAllNodes()) {
      if (node.getReservedContainer() != null && release(node)) {
        released++;
      }
    }
    return released;
  }

  private boolean release(FiCaSchedulerNode node) {
    Lock lock = port.writeLock();
    lock.lock();
    try {
      return releaseLocked(node);
    } finally {
      lock.unlock();
    }
  }

  /** The same for a caller that holds the scheduler's write lock. */
  boolean releaseLocked(FiCaSchedulerNode node) {
    RMContainer reserved = node.getReservedContainer();
    if (reserved == null) {
      return false;
    }
    port.scheduler().killReservedContainer(reserved);
    return node.getReservedContainer() == null;
  }
}

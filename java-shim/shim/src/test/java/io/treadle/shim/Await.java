// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Waits for what happens on other threads: looks again and again, and gives up after a time that only a fault takes.
 */
public final class Await {
  private static final long DEADLINE_NANOS = TimeUnit.SECONDS.toNanos(60);
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(5);

  private Await() {
  }

  /** Waits until a condition holds. */
  public static void until(String what, Callable<Boolean> condition) throws Exception {
    long begin = System.nanoTime();
    while (!condition.call()) {
      if (System.nanoTime() - begin > DEADLINE_NANOS) {
        throw new AssertionError("waited in vain until " + what);
      }
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }
}

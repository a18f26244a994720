// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.concurrent.atomic.LongAdder;

/** Receives exceptions of Treadle caught by the scheduler's overrides: counts all, and logs each kind at a low rate. */
public final class Escapes {
  private static final Log LOG = new Log(Escapes.class);

  private final LongAdder count = new LongAdder();

  /** Records a throwable of Treadle that was caught at {@code where}. Throws nothing. */
  public void caught(String where, Throwable throwable) {
    try {
      count.increment();
      LOG.failure(where, throwable);
    } catch (Throwable ignored) {
      // no memory even for this: there is nothing left to do but to let the stock scheduler go on
    }
  }

  /** How many were caught since the scheduler was made. */
  public long count() {
    return count.sum();
  }
}

package io.treadle.shim;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the scheduler's overrides send what they caught of ours. Counts everything, logs each kind (place and class)
 * once, and at most {@value #KINDS} kinds, so that a fault in a hot place cannot fill the RM's log.
 */
public final class Escapes {
  static final int KINDS = 64;
  private static final Logger LOG = LoggerFactory.getLogger(Escapes.class);

  private final LongAdder count = new LongAdder();
  private final Set<String> logged = ConcurrentHashMap.newKeySet();

  /** Takes note of a throwable of ours that was stopped at {@code where}. Throws nothing. */
  public void caught(String where, Throwable throwable) {
    try {
      count.increment();
      if (logged.size() < KINDS && logged.add(where + ' ' + throwable.getClass().getName())) {
        LOG.error("Treadle failed in {}; the CapacityScheduler carries on. More of this kind are only counted",
            where, throwable);
      }
    } catch (Throwable ignored) {
      // no memory even for this: there is nothing left to do but to let the stock scheduler go on
    }
  }

  /** How many were caught since the scheduler was made. */
  public long count() {
    return count.sum();
  }
}

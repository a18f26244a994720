package io.treadle.shim.commit;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Logs an exception with its stack once for each kind: a class thrown from a place. Bounded, thread-safe. */
final class FailureLog {
  private static final Logger LOG = LoggerFactory.getLogger(FailureLog.class);
  private static final int MOST_KINDS = 100;

  private final Set<String> kinds = ConcurrentHashMap.newKeySet();

  /** Logs an exception unless one of its kind was logged before. */
  void log(String doing, Throwable error) {
    StackTraceElement[] stack = error.getStackTrace();
    String kind = error.getClass().getName() + (stack.length == 0 ? "" : stack[0].toString());
    if (kinds.size() < MOST_KINDS && kinds.add(kind)) {
      LOG.error("Treadle: {} failed; the next failures of this kind are only counted", doing, error);
    }
  }
}

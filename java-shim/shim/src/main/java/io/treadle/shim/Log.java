// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The RM's log. Users, sidecars and exceptions choose texts: none of them ends a line, or commands a terminal. */
public final class Log {
  private static final int KINDS = 100;
  private static final long PAUSE_NANOS = TimeUnit.MINUTES.toNanos(10);

  private final Logger log;
  private final Map<String, Long> kinds = new ConcurrentHashMap<>();

  /** The log of a class. */
  public Log(Class<?> whose) {
    log = LoggerFactory.getLogger(whose);
  }

  /** Logs at INFO; the last argument may be a Throwable, as with slf4j. */
  public void info(String format, Object... arguments) {
    log.info(format, printable(arguments));
  }

  /** The same at WARN. */
  public void warn(String format, Object... arguments) {
    log.warn(format, printable(arguments));
  }

  /** The same at ERROR. */
  public void error(String format, Object... arguments) {
    log.error(format, printable(arguments));
  }

  /**
   * Logs a failure with its stack, each kind, a class thrown from a place, once in ten minutes: the place may be hot.
   */
  public void failure(String doing, Throwable failure) {
    StackTraceElement[] stack = failure.getStackTrace();
    String kind = failure.getClass().getName() + (stack.length == 0 ? doing : stack[0].toString());
    if (isDue(kind, System.nanoTime())) {
      error("Treadle: {} failed; this kind of failure is logged at most once in ten minutes", doing, failure);
    }
  }

  boolean isDue(String kind, long nanos) {
    Long last = kinds.get(kind);
    return last == null ? kinds.size() < KINDS && kinds.putIfAbsent(kind, nanos) == null
        : nanos - last >= PAUSE_NANOS && kinds.replace(kind, last, nanos);
  }

  private static Object[] printable(Object[] arguments) {
    return Arrays.stream(arguments).map(Log::printable).toArray();
  }

  private static Object printable(Object argument) {
    if (argument instanceof Throwable) {
      return new Shown((Throwable) argument, Shown.CAUSES);
    }
    return argument == null ? null : Printable.line(argument.toString());
  }

  /** A throwable whose text is one line, and so are its causes'. */
  private static final class Shown extends Throwable {
    private static final long serialVersionUID = 1L;
    private static final int CAUSES = 8;

    private final String text;

    Shown(Throwable original, int causes) {
      super(null, original.getCause() == null || causes == 0 ? null : new Shown(original.getCause(), causes - 1),
          false, true);
      text = Printable.line(original.toString());
      setStackTrace(original.getStackTrace());
    }

    @Override
    public String toString() {
      return text;
    }
  }
}

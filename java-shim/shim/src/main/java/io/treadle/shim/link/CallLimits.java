package io.treadle.shim.link;

import java.io.IOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;

/**
 * What one call of an engine may cost: time in all, from the first byte sent to the last one read, and bytes of its
 * answer. A read time-out of a socket bounds the wait for each byte only, and nothing bounds a line. Used by one
 * thread at a time.
 */
final class CallLimits {
  private final long timeoutNanos;
  private final long maxBytes;
  private long deadlineNanos;
  private long bytesLeft;

  /**
   * Limits for each call.
   *
   * @param timeoutMs time in all, milliseconds, at least 1
   * @param maxBytes length of the answer on the wire
   */
  CallLimits(int timeoutMs, long maxBytes) {
    this.timeoutNanos = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    this.maxBytes = maxBytes;
    begin();
  }

  /** A call begins now. */
  void begin() {
    deadlineNanos = System.nanoTime() + timeoutNanos;
    bytesLeft = maxBytes;
  }

  /** Milliseconds left, at least 1. */
  long remainingMs() throws SocketTimeoutException {
    long nanos = deadlineNanos - System.nanoTime();
    if (nanos <= 0) {
      throw new SocketTimeoutException("no answer within " + TimeUnit.NANOSECONDS.toMillis(timeoutNanos) + " ms");
    }
    return TimeUnit.NANOSECONDS.toMillis(nanos) + 1;
  }

  /** So many more bytes of the answer have come. */
  void received(int bytes) throws IOException {
    bytesLeft -= bytes;
    if (bytesLeft < 0) {
      throw new IOException("an answer of more than " + maxBytes + " bytes");
    }
  }
}

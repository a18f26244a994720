// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A connection of which each call may take so long and may read so much. A second thread closes it when the time is
 * over, since a write to a process that has stopped reading never returns by itself, and a time-out of a read is of
 * each byte. Used by one thread at a time; any may close it.
 */
final class BoundedSocket extends Socket {
  private static final int WRITE_BUFFER_BYTES = 1 << 16;

  private final long timeoutNanos;
  private final long maxBytes;
  private final Thread watch = new Thread(this::closeInTime, "treadle-deadline");
  private final Object lock = new Object();
  private boolean calling;
  private boolean late;
  private long deadlineNanos;
  private long bytesLeft;

  /**
   * Not connected yet.
   *
   * @param timeoutMs time of a call in all, milliseconds, at least 1
   * @param maxBytes what may be read in a call
   */
  BoundedSocket(int timeoutMs, long maxBytes) {
    this.timeoutNanos = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    this.maxBytes = maxBytes;
    watch.setDaemon(true);
  }

  /** A call begins. */
  void begin() {
    bytesLeft = maxBytes;
    synchronized (lock) {
      deadlineNanos = System.nanoTime() + timeoutNanos;
      calling = true;
    }
    if (watch.getState() == Thread.State.NEW) {
      watch.start();
    }
  }

  /** It is over. */
  void end() {
    synchronized (lock) {
      calling = false;
    }
  }

  /** What to say of a call that failed because its time was over; null if that was not the reason. */
  String lateness() {
    synchronized (lock) {
      return late ? "no answer within " + TimeUnit.NANOSECONDS.toMillis(timeoutNanos) + " ms" : null;
    }
  }

  private void closeInTime() {
    try {
      while (!isClosed()) {
        LockSupport.parkNanos(this, nanosToNextLook());
      }
    } catch (Throwable t) {
      // an Error that left the thread would end the RM: the next call fails, or is late by the lease
    }
  }

  private long nanosToNextLook() throws IOException {
    synchronized (lock) {
      long left = calling ? deadlineNanos - System.nanoTime() : timeoutNanos;
      if (left <= 0) {
        late = true;
        close();
      }
      return Math.max(1, left);
    }
  }

  /** Counts, and takes the end of the connection for an error: readLine() would take it for the end of a line. */
  @Override
  public InputStream getInputStream() throws IOException {
    return new FilterInputStream(super.getInputStream()) {
      @Override
      public int read() throws IOException {
        byte[] one = new byte[1];
        read(one, 0, 1);
        return one[0] & 0xff;
      }

      @Override
      public int read(byte[] bytes, int offset, int length) throws IOException {
        int read = in.read(bytes, offset, length);
        if (read < 0) {
          throw new EOFException("the sidecar closed the connection");
        }
        bytesLeft -= read;
        if (bytesLeft < 0) {
          throw new IOException("an answer of more than " + maxBytes + " bytes");
        }
        return read;
      }
    };
  }

  @Override
  public OutputStream getOutputStream() throws IOException {
    return new BufferedOutputStream(super.getOutputStream(), WRITE_BUFFER_BYTES);
  }

  @Override
  public void close() throws IOException {
    super.close();
    LockSupport.unpark(watch);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketException;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.thirdparty.com.google.common.util.concurrent.ThreadFactoryBuilder;

/**
 * A connection of which each call may take so long and may read so much. A second thread closes it when the time is
 * over, since a write to a process that has stopped reading never returns by itself, and a time-out of a read is of
 * each byte. Used by one thread at a time; any may close it.
 */
final class BoundedSocket extends Socket {
  private static final int WRITE_BUFFER_BYTES = 1 << 16;

  private final int timeoutMs;
  private final long maxBytes;
  private final ScheduledThreadPoolExecutor deadlines = new ScheduledThreadPoolExecutor(1,
      new ThreadFactoryBuilder().setDaemon(true).setNameFormat("treadle-deadline").build());
  private Future<?> deadline;
  private volatile boolean late;
  private long bytesLeft;

  /**
   * Not connected yet.
   *
   * @param timeoutMs time of a call in all, milliseconds, at least 1
   * @param maxBytes what may be read in a call
   */
  BoundedSocket(int timeoutMs, long maxBytes) {
    this.timeoutMs = timeoutMs;
    this.maxBytes = maxBytes;
    deadlines.setRemoveOnCancelPolicy(true);
  }

  /** A call begins. */
  void begin() throws IOException {
    if (isClosed()) {
      throw new SocketException("the connection is closed");
    }
    bytesLeft = maxBytes;
    deadline = deadlines.schedule(() -> {
      late = true;
      close();
      return null;
    }, timeoutMs, TimeUnit.MILLISECONDS);
  }

  /** It is over. */
  void end() {
    deadline.cancel(false);
  }

  /** What to say of a call that failed because its time was over; null if that was not the reason. */
  String lateness() {
    return late ? "no answer within " + timeoutMs + " ms" : null;
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
    deadlines.shutdownNow();
  }
}

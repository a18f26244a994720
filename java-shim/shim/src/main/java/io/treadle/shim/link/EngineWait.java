// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.InterruptedIOException;

/**
 * Lets the end of a link end its thread's wait for the engine: closes the connection, and interrupts the thread, which
 * it does at no other time: an interrupt in a commit would break the RM's dispatcher off.
 */
final class EngineWait {
  private final Object lock = new Object();
  private Thread waiting;
  private Conversation awaited;
  private volatile boolean stopping;

  /** The calling thread is about to wait for the engine of a conversation. */
  void begin(Conversation conversation) throws InterruptedIOException {
    synchronized (lock) {
      checkNotStopping();
      waiting = Thread.currentThread();
      awaited = conversation;
    }
  }

  /** It waits no more. */
  void end() {
    synchronized (lock) {
      waiting = null;
    }
  }

  /** From now on nobody may wait, and who does is interrupted. Any thread. */
  void stop() {
    synchronized (lock) {
      stopping = true;
      if (waiting != null) {
        waiting.interrupt();
        awaited.close();
      }
    }
  }

  boolean isStopping() {
    return stopping;
  }

  /** An interrupt may come together with the answer; nothing of the RM's may be touched with it. */
  void checkNotStopping() throws InterruptedIOException {
    if (stopping) {
      throw new InterruptedIOException("the scheduler is stopping");
    }
  }
}

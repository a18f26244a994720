package io.treadle.shim.link;

import io.treadle.shim.wire.MalformedReplyException;
import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;

/** Something that another thread does while the link does something else. Used by the thread that began it. */
final class Errand<T> {
  private final Object lock = new Object();
  private final Callable<T> work;
  private final Runnable onFailure;
  private Thread runner;
  private boolean abandoned;
  private boolean ended;
  private T result;
  private Throwable failure;

  private Errand(Callable<T> work, Runnable onFailure) {
    this.work = work;
    this.onFailure = onFailure;
  }

  /** Has a thread do something; {@code onFailure} is called on that thread as soon as it has failed. */
  static <T> Errand<T> begin(Executor threads, Callable<T> work, Runnable onFailure) {
    Errand<T> errand = new Errand<>(work, onFailure);
    threads.execute(errand::run);
    return errand;
  }

  /** Throws nothing: an Error that left the thread would end the RM, whose handler of uncaught ones exits. */
  private void run() {
    synchronized (lock) {
      if (abandoned) {
        ended(null, null);
        return;
      }
      runner = Thread.currentThread();
    }
    T done = null;
    Throwable thrown = null;
    try {
      done = work.call();
    } catch (Throwable t) {
      thrown = t;
      try {
        onFailure.run();
      } catch (Throwable another) {
        thrown = another;
      }
    }
    synchronized (lock) {
      ended(done, thrown);
    }
  }

  /** With the lock held: an interrupt hits nothing that this thread does later. */
  private void ended(T done, Throwable thrown) {
    result = done;
    failure = thrown;
    runner = null;
    ended = true;
    Thread.interrupted();
    lock.notifyAll();
  }

  /** Waits for the outcome; throws what the work threw. After an interrupt it goes on: see {@link #abandon}. */
  T await() throws IOException, MalformedReplyException, InterruptedException {
    synchronized (lock) {
      while (!ended) {
        lock.wait();
      }
    }
    if (failure == null) {
      return result;
    }
    if (failure instanceof MalformedReplyException) {
      throw (MalformedReplyException) failure;
    }
    if (failure instanceof RuntimeException) {
      throw (RuntimeException) failure;
    }
    if (failure instanceof Error) {
      throw (Error) failure;
    }
    throw failure instanceof IOException ? (IOException) failure : new IOException(failure);
  }

  /** Interrupts the thread that is at it, and waits until the thread has left it: what it used may be closed then. */
  void abandon() {
    boolean interrupted = false;
    synchronized (lock) {
      abandoned = true;
      if (runner != null) {
        runner.interrupt();
      }
      while (!ended) {
        try {
          lock.wait();
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}

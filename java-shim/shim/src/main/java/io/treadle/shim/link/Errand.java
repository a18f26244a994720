package io.treadle.shim.link;

import java.io.IOException;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;

/** Something that another thread does while the link does something else. Used by the thread that began it. */
final class Errand<T> {
  private final FutureTask<T> task;
  /** Counted down when the other thread has left it. */
  private final CountDownLatch left = new CountDownLatch(1);

  private Errand(Callable<T> work, Runnable onFailure) {
    task = new FutureTask<>(() -> {
      try {
        return work.call();
      } catch (Throwable t) {
        onFailure.run();
        throw t;
      }
    });
  }

  /** Has a thread do something; {@code onFailure} is called on that thread as soon as it has failed. */
  static <T> Errand<T> begin(Executor threads, Callable<T> work, Runnable onFailure) {
    Errand<T> errand = new Errand<>(work, onFailure);
    threads.execute(errand::run);
    return errand;
  }

  /** Throws nothing: an Error that left the thread would end the RM, whose handler of uncaught ones exits. */
  private void run() {
    try {
      task.run();
    } finally {
      // that of abandon() has come: it hits nothing that this thread does later
      Thread.interrupted();
      left.countDown();
    }
  }

  /** Waits for the outcome; throws what the work threw. After an interrupt it goes on: see {@link #abandon}. */
  T await() throws IOException, InterruptedException {
    try {
      return task.get();
    } catch (ExecutionException e) {
      Throwable failure = e.getCause();
      if (failure instanceof RuntimeException) {
        throw (RuntimeException) failure;
      }
      if (failure instanceof Error) {
        throw (Error) failure;
      }
      throw failure instanceof IOException ? (IOException) failure : new IOException(failure);
    }
  }

  /** Interrupts the thread that is at it, and waits until the thread has left it: what it used may be closed then. */
  void abandon() {
    task.cancel(true);
    boolean interrupted = false;
    while (left.getCount() > 0) {
      try {
        left.await();
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}

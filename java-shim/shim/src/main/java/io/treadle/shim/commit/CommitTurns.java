package io.treadle.shim.commit;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Decides which of several engines commits next. Among those that wait, an engine that was passed over goes first; then
 * the highest precedence counts. So each waits for at most one batch, or one transaction, of each other engine.
 */
public final class CommitTurns {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  /** In the order in which they came. */
  private final List<Waiting> waiting = new ArrayList<>();
  private boolean taken;

  private static final class Waiting {
    final int precedence;
    boolean passedOver;

    Waiting(int precedence) {
      this.precedence = precedence;
    }

    boolean isBefore(Waiting other) {
      return passedOver == other.passedOver ? precedence > other.precedence : passedOver;
    }
  }

  /** Waits for the turn of an engine; {@link #leave} ends it. */
  public void enter(int precedence) {
    lock.lock();
    try {
      Waiting me = new Waiting(precedence);
      waiting.add(me);
      while (taken || next() != me) {
        changed.awaitUninterruptibly();
      }
      taken = true;
      waiting.remove(me);
      waiting.forEach(other -> other.passedOver = true);
    } finally {
      lock.unlock();
    }
  }

  private Waiting next() {
    Waiting best = waiting.get(0);
    for (Waiting each : waiting) {
      best = each.isBefore(best) ? each : best;
    }
    return best;
  }

  /** Ends a turn. */
  public void leave() {
    lock.lock();
    try {
      taken = false;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** How many wait; for tests. */
  int waiting() {
    lock.lock();
    try {
      return waiting.size();
    } finally {
      lock.unlock();
    }
  }
}

package io.treadle.shim;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/** A lock that keeps nobody out. */
public final class NoLock implements Lock {
  /** The one there is. */
  public static final Lock INSTANCE = new NoLock();

  private NoLock() { }

  @Override
  public void lock() { }

  @Override
  public void lockInterruptibly() { }

  @Override
  public boolean tryLock() {
    return true;
  }

  @Override
  public boolean tryLock(long time, TimeUnit unit) {
    return true;
  }

  @Override
  public void unlock() { }

  @Override
  public Condition newCondition() {
    throw new UnsupportedOperationException("a lock that keeps nobody out has no conditions");
  }
}

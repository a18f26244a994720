// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class LeaseTest {
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);
  private final Lease lease = new Lease(clock::get, 2000);

  private void pass(long ms) {
    clock.addAndGet(TimeUnit.MILLISECONDS.toNanos(ms));
  }

  @Test
  void nobodyHoldsItAtFirst() {
    assertFalse(lease.held());
    pass(10_000);
    assertFalse(lease.held());
    assertEquals(0, lease.flips());
  }

  @Test
  void runsOutByItself() {
    lease.renew(true);
    assertTrue(lease.held());
    pass(1999);
    assertTrue(lease.held());
    pass(1);
    assertFalse(lease.held());
    assertEquals(2, lease.flips());
  }

  @Test
  void goesOnWithEachAnswer() {
    for (int i = 0; i < 10; i++) {
      lease.renew(true);
      pass(1500);
      assertTrue(lease.held());
    }
    assertEquals(1, lease.flips());
  }

  @Test
  void isGivenUpAtOnce() {
    lease.renew(true);
    lease.release();
    assertFalse(lease.held());
    lease.renew(true);
    assertTrue(lease.held());
    assertEquals(3, lease.flips());
  }

  @Test
  void anotherDurationHoldsFromTheNextAnswerOn() {
    lease.renew(true);
    lease.duration(100);
    pass(1000);
    assertTrue(lease.held());
    lease.renew(true);
    pass(100);
    assertFalse(lease.held());
  }

  @Test
  void anEngineThatIsOnlyObservedHoldsItAndSchedulesNothing() {
    lease.renew(false);
    assertTrue(lease.held());
    assertFalse(lease.schedules());
    lease.renew(true);
    assertTrue(lease.schedules());
    pass(2000);
    assertFalse(lease.schedules());
    lease.renew(false);
    assertFalse(lease.schedules());
    assertEquals(3, lease.flips());
  }

  @Test
  void knowsHowMuchOfItIsLeft() {
    assertEquals(0, lease.leftNanos());
    lease.renew(true);
    pass(500);
    assertEquals(TimeUnit.MILLISECONDS.toNanos(1500), lease.leftNanos());
    pass(1500);
    assertEquals(0, lease.leftNanos());
    lease.renew(true);
    lease.release();
    assertEquals(0, lease.leftNanos());
  }
}

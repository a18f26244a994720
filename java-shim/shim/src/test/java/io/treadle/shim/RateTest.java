// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class RateTest {
  private final AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 5);

  private static long taken(Rate rate) {
    return IntStream.range(0, 100).filter(i -> rate.take()).count();
  }

  @Test
  void someAtOnceAndThenOneInEachPeriod() {
    Rate rate = new Rate(clock::get, 3, 10);
    assertEquals(3, taken(rate));
    clock.addAndGet(9);
    assertEquals(0, taken(rate));
    clock.addAndGet(1);
    assertEquals(1, taken(rate));
    clock.addAndGet(25);
    assertEquals(2, taken(rate));
    clock.addAndGet(5);
    assertEquals(1, taken(rate));
    clock.addAndGet(1_000_000);
    assertEquals(3, taken(rate));
  }

  /** A period that began before nobody wanted anything is none. */
  @Test
  void betweenTwoThereIsAWholePeriod() {
    Rate rate = new Rate(clock::get, 1, 10);
    clock.addAndGet(19);
    assertEquals(1, taken(rate));
    clock.addAndGet(9);
    assertEquals(0, taken(rate));
    clock.addAndGet(1);
    assertEquals(1, taken(rate));
  }
}

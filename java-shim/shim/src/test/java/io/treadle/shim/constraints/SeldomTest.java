package io.treadle.shim.constraints;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A ResourceManager that becomes active again in the same JVM warns again. */
class SeldomTest {
  @Test
  void aWarningComesAgainAfterTenMinutes() {
    long start = Long.MAX_VALUE - TimeUnit.MINUTES.toNanos(1);
    Seldom warning = new Seldom();
    assertTrue(warning.isDue(start));
    assertFalse(warning.isDue(start + 1));
    assertFalse(warning.isDue(start + TimeUnit.MINUTES.toNanos(10) - 1));
    assertTrue(warning.isDue(start + TimeUnit.MINUTES.toNanos(10)));
    assertFalse(warning.isDue(start + TimeUnit.MINUTES.toNanos(19)));
  }
}

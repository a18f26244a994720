// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.wire.Fate;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** No fate without a test that brings it about on a real scheduler. */
class FateExamplesTest {
  private static final Class<?>[] TESTS = {
      FatesTest.class, LimitsTest.class, LabelsTest.class, FeaturesTest.class, SchedulingRequestsTest.class,
      JudgingTest.class
  };

  @Test
  void eachFateHasAnExample() {
    // the last three are for several engines, which there are not yet
    Set<Fate> missing = EnumSet.range(Fate.COMMITTED, Fate.NEGATIVE);
    for (Class<?> tests : TESTS) {
      for (Method test : tests.getDeclaredMethods()) {
        if (test.isAnnotationPresent(Shows.class) && test.isAnnotationPresent(Test.class)) {
          missing.removeAll(Arrays.asList(test.getAnnotation(Shows.class).value()));
        }
      }
    }
    assertEquals(EnumSet.noneOf(Fate.class), missing);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.Collections;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TapsTest {
  private final Journal journal = new Journal(100, () -> { });
  private final Taps taps = new Taps(journal, null);
  private final ApplicationAttemptId attempt = ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 2), 3);

  @BeforeEach
  void drain() {
    journal.take();
  }

  @Test
  void anAmsHeartbeatWithoutAsksMarksNothing() {
    taps.allocated(attempt, Collections.emptyList(), null, null, Collections.emptyList());
    assertEquals(0, journal.take().size());
    taps.allocated(attempt, Collections.singletonList(null), null, null, Collections.emptyList());
    Journal.Changes changes = journal.take();
    assertEquals(Collections.singletonMap(attempt.getApplicationId(), false), changes.asks);
    taps.allocated(attempt, null, null, Collections.singletonList("n1"), null);
    assertEquals(Collections.singletonMap(attempt.getApplicationId(), true), journal.take().asks);
  }

  @Test
  void tapsCostNothingWhileNobodyListens() {
    journal.snapshotNeeded();
    taps.mark(all -> fail("nobody listens"));
    journal.take();
    AtomicBoolean marked = new AtomicBoolean();
    taps.mark(all -> marked.set(true));
    assertTrue(marked.get());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.junit.jupiter.api.Test;

class FirstWaitsTest {
  private static final long MS = 1_000_000;
  private static final ApplicationAttemptId ATTEMPT =
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);

  private final FirstWaits waits = new FirstWaits(100 * MS);

  private static List<ResourceRequest> ask(int containers) {
    return Collections.singletonList(ResourceRequest.newInstance(Priority.newInstance(1), ResourceRequest.ANY,
        Resource.newInstance(1024, 1), containers));
  }

  @Test
  void theFirstAskForTheMasterAndTheFirstForTasksEachWaitForTheirFirstContainer() {
    waits.asked(ATTEMPT, "etl", ask(1), 110 * MS);
    waits.asked(ATTEMPT, "etl", ask(1), 112 * MS);
    waits.committed(ATTEMPT, 115 * MS);
    waits.committed(ATTEMPT, 116 * MS);
    waits.asked(ATTEMPT, "etl", ask(0), 118 * MS);
    waits.asked(ATTEMPT, "etl", ask(3), 120 * MS);
    waits.committed(ATTEMPT, 127 * MS);
    waits.committed(ATTEMPT, 128 * MS);
    assertEquals(1, waits.rows().size());
    assertArrayEquals(new Object[] {"etl", 10.0, 5.0, 20.0, 7.0}, waits.rows().get(0));
  }

  @Test
  void whatHasNotComeIsMinusOne() {
    waits.committed(ATTEMPT, 105 * MS);
    waits.asked(ATTEMPT, "etl", Collections.emptyList(), 106 * MS);
    waits.asked(ATTEMPT, "etl", null, 107 * MS);
    assertEquals(0, waits.rows().size());
    waits.asked(ATTEMPT, "etl", ask(1), 110 * MS);
    assertArrayEquals(new Object[] {"etl", 10.0, -1.0, -1.0, -1.0}, waits.rows().get(0));
  }
}

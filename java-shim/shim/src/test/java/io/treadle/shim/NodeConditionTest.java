// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class NodeConditionTest {
  @Test
  void theEngineHearsOfAQuietNodeBeforeProposalsOnItAreRefused() {
    assertEquals(1500, NodeCondition.noticeMs(2000));
    assertEquals(9500, NodeCondition.noticeMs(10_000));
    for (long staleAfterMs = 4; staleAfterMs < 5000; staleAfterMs++) {
      long noticeMs = NodeCondition.noticeMs(staleAfterMs);
      assertTrue(noticeMs < staleAfterMs && noticeMs >= staleAfterMs * 3 / 4);
    }
  }
}

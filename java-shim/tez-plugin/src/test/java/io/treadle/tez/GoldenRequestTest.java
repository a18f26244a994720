// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import io.treadle.plans.AttemptKey;
import io.treadle.plans.Messages;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.junit.jupiter.api.Test;

class GoldenRequestTest {
  /** The engine reads the same file. */
  @Test
  void theGoldenRequest() throws Exception {
    byte[] challenge = new byte[Messages.CHALLENGE_BYTES];
    byte[] body = DagDescription.of(FakeDag.diamond().dag).encode();
    AttemptKey key = AttemptKey.of(FakeDag.ATTEMPT, 5, new byte[20]);
    byte[] request = Messages.request(key, challenge, Messages.KIND_PLAN, body,
        new byte[Messages.NONCE_BYTES]);
    assertArrayEquals(Files.readAllBytes(Paths.get("../../tests/golden/plan-request.bin")), request);
  }
}

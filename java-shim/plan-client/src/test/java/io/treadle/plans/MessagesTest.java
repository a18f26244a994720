// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MessagesTest {
  private static final AttemptKey KEY = AttemptKey.of(
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1_700_000_000_000L, 7), 2), 5, new byte[20]);

  private static byte[] nonce() {
    byte[] nonce = new byte[Messages.NONCE_BYTES];
    for (int i = 0; i < nonce.length; i++) {
      nonce[i] = (byte) (32 + i);
    }
    return nonce;
  }

  private static DataInputStream rest(byte[] whole, int from) {
    return new DataInputStream(new ByteArrayInputStream(whole, from, whole.length - from));
  }

  /** The listener's tests read the same files. */
  @ParameterizedTest
  @ValueSource(strings = {"plan-exchange.bin", "plan-exchange-sealed.bin"})
  void theGoldenExchange(String file) throws Exception {
    byte[] whole = Files.readAllBytes(Paths.get("../../tests/golden/" + file));
    byte[] challenge = Arrays.copyOf(whole, Messages.CHALLENGE_BYTES);
    Messages.checkChallenge(challenge);
    byte[] request = Messages.request(KEY, challenge, PlanListener.Subject.DAG.kind(), new byte[] {1, 2, 3}, nonce());
    int end = Messages.CHALLENGE_BYTES + request.length;
    assertArrayEquals(Arrays.copyOfRange(whole, Messages.CHALLENGE_BYTES, end), request);
    PlanListener.Reply reply = Messages.answer(rest(whole, end), KEY, challenge, request);
    assertEquals(PlanListener.Answer.UNKNOWN, reply.answer());
    assertArrayEquals(new byte[] {4, 5}, reply.body());
  }

  @Test
  void anAnswerFitsNoOtherRequest() throws Exception {
    byte[] whole = Files.readAllBytes(Paths.get("../../tests/golden/plan-exchange.bin"));
    byte[] challenge = Arrays.copyOf(whole, Messages.CHALLENGE_BYTES);
    int kind = PlanListener.Subject.DAG.kind();
    byte[] request = Messages.request(KEY, challenge, kind, new byte[] {1, 2, 3}, nonce());
    int end = Messages.CHALLENGE_BYTES + request.length;
    for (byte[] other : new byte[][] {
        Messages.request(KEY, challenge, kind, new byte[] {1, 2, 4}, nonce()),
        Messages.request(KEY, challenge, kind, new byte[] {1, 2, 3}, new byte[Messages.NONCE_BYTES]),
        Messages.request(KEY, challenge, Messages.KIND_PLAN, new byte[] {1, 2, 3}, nonce())}) {
      assertThrows(IOException.class, () -> Messages.answer(rest(whole, end), KEY, challenge, other));
    }
    byte[] again = challenge.clone();
    again[39]++;
    assertThrows(IOException.class, () -> Messages.answer(rest(whole, end), KEY, again, request));
  }
}

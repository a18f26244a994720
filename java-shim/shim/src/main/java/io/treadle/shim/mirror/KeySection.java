// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Collections;
import java.util.Locale;
import java.util.Set;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;

/**
 * Writes a key for each attempt of the application types that the engine wants to speak with. It is made from the
 * password of the attempt's AMRM token, which the attempt has too and which cannot be found from it. Without an engine
 * that asks, nothing is made and nothing written.
 */
final class KeySection {
  private static final String ALGORITHM = "HmacSHA256";
  private static final byte[] PURPOSE = "treadle-plans-1".getBytes(StandardCharsets.US_ASCII);

  private volatile Set<String> types = Collections.emptySet();

  /** The types, in upper case, of the applications whose keys are wanted. */
  void types(Set<String> wanted) {
    types = wanted;
  }

  /** Writes the key of an attempt if it is wanted and is not the one sent last. */
  void review(Draft draft, ApplicationSection.Row row) {
    if (types.isEmpty()) {
      return;
    }
    RMApp app = draft.context.getRMApps().get(row.app.getApplicationId());
    if (app == null || !types.contains(app.getApplicationType().toUpperCase(Locale.ROOT))) {
      return;
    }
    RMAppAttempt attempt = app.getRMAppAttempt(row.app.getApplicationAttemptId());
    Token<AMRMTokenIdentifier> token = attempt == null ? null : attempt.getAMRMToken();
    if (token == null || token == row.keyToken) {
      return;
    }
    try {
      AMRMTokenIdentifier identifier = new AMRMTokenIdentifier();
      identifier.readFields(new DataInputStream(new ByteArrayInputStream(token.getIdentifier())));
      ByteBuffer key = ByteBuffer.wrap(key(token.getPassword())).order(ByteOrder.LITTLE_ENDIAN);
      draft.section(Section.KEYS).i32(row.index).i32(identifier.getKeyId()).i64(key.getLong()).i64(key.getLong())
          .i64(key.getLong()).i64(key.getLong()).end();
      row.keyToken = token;
    } catch (IOException | GeneralSecurityException problem) {
      throw new IllegalStateException("no key can be made for " + row.app.getApplicationAttemptId(), problem);
    }
  }

  static byte[] key(byte[] password) throws GeneralSecurityException {
    Mac mac = Mac.getInstance(ALGORITHM);
    mac.init(new SecretKeySpec(password, ALGORITHM));
    return mac.doFinal(PURPOSE);
  }
}

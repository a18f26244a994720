// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.security.token.TokenIdentifier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;

/**
 * A key that this application attempt and its ResourceManager alone know: made from the password of the AMRM token,
 * which can not be found from it.
 */
public final class AttemptKey {
  /** Bytes of a message authentication code. */
  static final int MAC_BYTES = 32;

  private static final String ALGORITHM = "HmacSHA256";
  private static final byte[] PURPOSE = "treadle-plans-1".getBytes(StandardCharsets.US_ASCII);

  private final ApplicationAttemptId attempt;
  private final int number;
  private final SecretKeySpec key;

  private AttemptKey(ApplicationAttemptId attempt, int number, byte[] key) {
    this.attempt = attempt;
    this.number = number;
    this.key = new SecretKeySpec(key, ALGORITHM);
  }

  /** The key that belongs to a token. */
  public static AttemptKey of(ApplicationAttemptId attempt, int number, byte[] password) {
    return new AttemptKey(attempt, number, mac(new SecretKeySpec(password, ALGORITHM), PURPOSE));
  }

  /**
   * The keys of an attempt that users have tokens for, without repetition: more than one after the master key was
   * rolled over, since not every copy of a token is renewed.
   *
   * @param whose which attempt it is
   */
  public static List<AttemptKey> of(Predicate<ApplicationAttemptId> whose, Iterable<UserGroupInformation> users)
      throws IOException {
    List<AttemptKey> keys = new ArrayList<>();
    for (UserGroupInformation user : users) {
      for (Token<? extends TokenIdentifier> token : user.getTokens()) {
        if (AMRMTokenIdentifier.KIND_NAME.equals(token.getKind())) {
          AMRMTokenIdentifier identifier = new AMRMTokenIdentifier();
          identifier.readFields(new DataInputStream(new ByteArrayInputStream(token.getIdentifier())));
          ApplicationAttemptId attempt = identifier.getApplicationAttemptId();
          if (whose.test(attempt) && !has(keys, identifier.getKeyId())) {
            keys.add(of(attempt, identifier.getKeyId(), token.getPassword()));
          }
        }
      }
    }
    return keys;
  }

  private static boolean has(List<AttemptKey> keys, int number) {
    for (AttemptKey key : keys) {
      if (key.number == number) {
        return true;
      }
    }
    return false;
  }

  /** The code of some bytes, one part after the other. */
  public byte[] mac(byte[]... parts) {
    return mac(key, parts);
  }

  private static byte[] mac(SecretKeySpec key, byte[]... parts) {
    try {
      Mac mac = Mac.getInstance(ALGORITHM);
      mac.init(key);
      for (byte[] part : parts) {
        mac.update(part);
      }
      return mac.doFinal();
    } catch (GeneralSecurityException missing) {
      throw new IllegalStateException(missing);
    }
  }

  /** Whose key it is. */
  public ApplicationAttemptId attempt() {
    return attempt;
  }

  /** The number of the RM's master key that it hangs on. */
  public int number() {
    return number;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Bodies of requests and answers, encrypted with AES-256-GCM. The key of a direction comes from the attempt's key, the
 * challenge and the request's nonce; it seals one body, so that GCM's own nonce may be constant.
 */
final class Sealing {
  static final byte[] REQUEST = "treadle-plans-2 request".getBytes(StandardCharsets.US_ASCII);
  static final byte[] ANSWER = "treadle-plans-2 answer".getBytes(StandardCharsets.US_ASCII);

  static final int TAG_BITS = 128;
  private static final byte[] GCM_NONCE = new byte[12];

  private Sealing() {
  }

  static byte[] seal(AttemptKey key, byte[] direction, byte[] challenge, byte[] nonce, byte[] body)
      throws IOException {
    return cipher(Cipher.ENCRYPT_MODE, key.mac(direction, challenge, nonce), body);
  }

  /** What a sealed body holds. */
  static byte[] unseal(AttemptKey key, byte[] direction, byte[] challenge, byte[] nonce, byte[] sealed)
      throws IOException {
    return cipher(Cipher.DECRYPT_MODE, key.mac(direction, challenge, nonce), sealed);
  }

  private static byte[] cipher(int mode, byte[] key, byte[] content) throws IOException {
    try {
      Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
      cipher.init(mode, new SecretKeySpec(key, "AES"), new GCMParameterSpec(TAG_BITS, GCM_NONCE));
      return cipher.doFinal(content);
    } catch (GeneralSecurityException problem) {
      throw new IOException("a body cannot be encrypted or decrypted: " + problem.getMessage(), problem);
    }
  }
}

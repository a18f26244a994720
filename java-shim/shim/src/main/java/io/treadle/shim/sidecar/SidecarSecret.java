package io.treadle.shim.sidecar;

import java.security.SecureRandom;

/** The 256 bits that a sidecar and the RM alone know, in hexadecimal where they are written down. */
final class SidecarSecret {
  private static final int BYTES = 32;
  private static final SecureRandom RANDOM = new SecureRandom();

  private SidecarSecret() {
  }

  /** A new one. */
  static byte[] random() {
    byte[] secret = new byte[BYTES];
    RANDOM.nextBytes(secret);
    return secret;
  }

  /** As it is written down. */
  static String text(byte[] secret) {
    StringBuilder text = new StringBuilder(2 * BYTES);
    for (byte b : secret) {
      text.append(Character.forDigit(b >> 4 & 0xf, 16)).append(Character.forDigit(b & 0xf, 16));
    }
    return text.toString();
  }

  /** What was written down; null if it is none. */
  static byte[] parse(String text) {
    if (text.length() != 2 * BYTES) {
      return null;
    }
    byte[] secret = new byte[BYTES];
    for (int i = 0; i < BYTES; i++) {
      int high = Character.digit(text.charAt(2 * i), 16);
      int low = Character.digit(text.charAt(2 * i + 1), 16);
      if (high < 0 || low < 0) {
        return null;
      }
      secret[i] = (byte) (high << 4 | low);
    }
    return secret;
  }
}

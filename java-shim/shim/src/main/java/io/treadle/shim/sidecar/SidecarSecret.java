// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import java.security.SecureRandom;
import java.util.regex.Pattern;
import org.apache.hadoop.util.StringUtils;

/** The 256 bits that a sidecar and the RM alone know, in hexadecimal where they are written down. */
final class SidecarSecret {
  private static final int BYTES = 32;
  private static final Pattern WRITTEN = Pattern.compile("[0-9a-fA-F]{" + 2 * BYTES + "}");
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
    return StringUtils.byteToHexString(secret);
  }

  /** What was written down; null if it is none. */
  static byte[] parse(String text) {
    // Hadoop's takes signs in place of digits
    return WRITTEN.matcher(text).matches() ? StringUtils.hexStringToByte(text) : null;
  }
}

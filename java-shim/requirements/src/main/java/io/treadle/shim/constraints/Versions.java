// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.math.BigInteger;
import java.util.regex.Pattern;

/** Dotted numbers, compared part by part; parts that are missing are 0. */
final class Versions {
  private static final Pattern DOTTED = Pattern.compile("[0-9]++(\\.[0-9]++)*+");

  private Versions() {
  }

  /** Whether a text is a dotted number, as in {@code 4.18}. */
  static boolean isDotted(String text) {
    return DOTTED.matcher(text).matches();
  }

  /** Whether two texts are equal, dotted numbers as versions: 8 and 8.0 are. */
  static boolean same(String value, String wanted) {
    return value.equals(wanted) || isDotted(value) && isDotted(wanted) && compare(value, wanted) == 0;
  }

  /** Compares two dotted numbers, of any length. */
  static int compare(String left, String right) {
    String[] mine = left.split("\\.");
    String[] theirs = right.split("\\.");
    int order = 0;
    for (int i = 0; i < Math.max(mine.length, theirs.length) && order == 0; i++) {
      order = part(mine, i).compareTo(part(theirs, i));
    }
    return order;
  }

  private static BigInteger part(String[] parts, int i) {
    return i < parts.length ? new BigInteger(parts[i]) : BigInteger.ZERO;
  }
}

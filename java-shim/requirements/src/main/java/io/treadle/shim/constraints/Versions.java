// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

/** Dotted numbers, compared part by part; parts that are missing are 0. */
final class Versions {
  private Versions() {
  }

  /** Whether a text is a dotted number, as in {@code 4.18}. */
  static boolean isDotted(String text) {
    boolean digit = false;
    for (int i = 0; i < text.length(); i++) {
      char one = text.charAt(i);
      if (one >= '0' && one <= '9') {
        digit = true;
      } else if (one == '.' && digit) {
        digit = false;
      } else {
        return false;
      }
    }
    return digit;
  }

  /** Whether two texts are equal, dotted numbers as versions: 8 and 8.0 are. */
  static boolean same(String value, String wanted) {
    return value.equals(wanted) || isDotted(value) && isDotted(wanted) && compare(value, wanted) == 0;
  }

  /** Compares two dotted numbers, of any length. */
  static int compare(String left, String right) {
    int i = 0;
    int j = 0;
    while (i < left.length() || j < right.length()) {
      int leftEnd = end(left, i);
      int rightEnd = end(right, j);
      String mine = number(left, i, leftEnd);
      String theirs = number(right, j, rightEnd);
      int order = mine.length() != theirs.length() ? Integer.compare(mine.length(), theirs.length())
          : mine.compareTo(theirs);
      if (order != 0) {
        return order;
      }
      i = leftEnd + 1;
      j = rightEnd + 1;
    }
    return 0;
  }

  private static int end(String text, int from) {
    int dot = from >= text.length() ? -1 : text.indexOf('.', from);
    return dot < 0 ? Math.max(from, text.length()) : dot;
  }

  /** Without leading zeros; empty for 0 and for a part that is missing. */
  private static String number(String text, int from, int end) {
    int first = from;
    while (first < end && first < text.length() && text.charAt(first) == '0') {
      first++;
    }
    return first >= text.length() ? "" : text.substring(first, end);
  }
}

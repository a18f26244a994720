// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

/** Text of others, made fit for one line of a log or a cell of a terminal. */
public final class Printable {
  private static final int BRIEF = 1000;

  private Printable() {
  }

  /** Returns a text with a space for each character that ends a line, commands a terminal or turns the direction. */
  public static String line(String text) {
    StringBuilder line = new StringBuilder(text.length());
    text.codePoints().forEach(code -> line.appendCodePoint(isPrintable(code) ? code : ' '));
    return line.toString();
  }

  /** Returns at most the first 1,000 characters of a text, as one line. */
  public static String brief(String text) {
    return line(cut(text, BRIEF));
  }

  /** Returns a text, of one that is longer than {@code most} characters the beginning with three dots after it. */
  public static String cut(String text, int most) {
    return text.length() <= most ? text : text.substring(0, most) + "...";
  }

  /** Returns the first {@code most} characters of a text. */
  public static String first(String text, int most) {
    return text.length() <= most ? text : text.substring(0, most);
  }

  private static boolean isPrintable(int code) {
    switch (Character.getType(code)) {
      case Character.CONTROL:
      case Character.FORMAT:
      case Character.LINE_SEPARATOR:
      case Character.PARAGRAPH_SEPARATOR:
      case Character.SURROGATE:
      case Character.UNASSIGNED:
      case Character.PRIVATE_USE:
        return false;
      default:
        return true;
    }
  }
}

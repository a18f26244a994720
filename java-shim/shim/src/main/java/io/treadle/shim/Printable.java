// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.regex.Pattern;

/** Text of others, made fit for one line of a log or a cell of a terminal. */
public final class Printable {
  private static final int BRIEF = 1000;
  /** Control, format, private and unassigned characters, halves of surrogates, ends of lines and paragraphs. */
  private static final Pattern UNPRINTABLE = Pattern.compile("[\\p{C}\\p{Cn}\\p{Zl}\\p{Zp}]");

  private Printable() {
  }

  /** Returns a text with a space for each character that ends a line, commands a terminal or turns the direction. */
  public static String line(String text) {
    return UNPRINTABLE.matcher(text).replaceAll(" ");
  }

  /** Returns at most the first 1,000 characters of a text, as one line. */
  public static String brief(String text) {
    return line(cut(text, BRIEF));
  }

  /** Returns a text, of one that is longer than {@code most} characters the beginning with three dots after it. */
  public static String cut(String text, int most) {
    return text.length() <= most ? text : text.substring(0, most) + "...";
  }
}

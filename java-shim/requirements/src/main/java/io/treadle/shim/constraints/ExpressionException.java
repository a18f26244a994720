// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

/** A requirement that cannot be read. The message says at which character, what is wrong, and how to put it right. */
final class ExpressionException extends Exception {
  private static final long serialVersionUID = 1L;
  private static final int SHOWN_CHARS = 120;

  private final int at;
  private final String reason;

  /** With where in the text it went wrong, from 1. */
  ExpressionException(String text, int at, String reason) {
    super("'" + shown(text) + "', character " + at + ": " + reason);
    this.at = at;
    this.reason = reason;
  }

  /** Users choose the text, and logs and terminals show it: only what is printable in ASCII. */
  private static String shown(String text) {
    String cut = text.length() <= SHOWN_CHARS ? text : text.substring(0, SHOWN_CHARS) + "...";
    return cut.replaceAll("[^ -~]", " ");
  }

  /** The character at which it went wrong, from 1. */
  int at() {
    return at;
  }

  /** What is wrong and how to put it right, without where. */
  String reason() {
    return reason;
  }
}

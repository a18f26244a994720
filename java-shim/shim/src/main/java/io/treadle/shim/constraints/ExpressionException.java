// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import io.treadle.shim.Printable;

/** A requirement that cannot be read. The message says at which character, what is wrong, and how to put it right. */
public final class ExpressionException extends Exception {
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

  private static String shown(String text) {
    return Printable.line(Printable.cut(text, SHOWN_CHARS));
  }

  /** The character at which it went wrong, from 1. */
  public int at() {
    return at;
  }

  /** What is wrong and how to put it right, without where. */
  public String reason() {
    return reason;
  }
}

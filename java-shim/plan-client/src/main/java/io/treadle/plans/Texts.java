// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Texts in messages to the listener. */
public final class Texts {
  private static final int CHARACTERS = 1000;

  private Texts() {
  }

  /** Writes the length in bytes and the first thousand characters of a text in UTF-8. */
  public static void write(DataOutputStream out, String text) throws IOException {
    String cut = text.length() <= CHARACTERS ? text : text.substring(0, CHARACTERS);
    byte[] bytes = cut.getBytes(StandardCharsets.UTF_8);
    out.writeShort(bytes.length);
    out.write(bytes);
  }
}

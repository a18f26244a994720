// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.util.Arrays;

/** The types of columns on the wire (docs/wire-format.md). */
public enum ColumnType {
  /** One byte, 0 to 255. */
  U8("u8", 1),
  /** A signed number of four bytes. */
  I32("i32", 4),
  /** A signed number of eight bytes. */
  I64("i64", 8),
  /** The index of a text, as {@link #I32}. */
  NAME("name", 4),
  /** As many columns of {@link #I64} as there are resource types. */
  RESOURCES("R*i64", 8);

  private final String text;
  private final int width;

  ColumnType(String text, int width) {
    this.text = text;
    this.width = width;
  }

  /** Bytes of a value; of {@link #RESOURCES}: of one resource type's. */
  public int width() {
    return width;
  }

  /** The type as the schema writes it. */
  static ColumnType parse(String text) {
    return Arrays.stream(values()).filter(type -> type.text.equals(text)).findFirst()
        .orElseThrow(() -> new IllegalArgumentException("no type of columns: " + text));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

/** The types of columns on the wire (docs/wire-format.md). */
public enum ColumnType {
  /** One byte, 0 to 255. */
  U8(1),
  /** A signed number of four bytes. */
  I32(4),
  /** A signed number of eight bytes. */
  I64(8),
  /** The index of a text, as {@link #I32}. */
  NAME(4),
  /** As many columns of {@link #I64} as there are resource types. */
  RESOURCES(8);

  private final int width;

  ColumnType(int width) {
    this.width = width;
  }

  /** Bytes of a value; of {@link #RESOURCES}: of one resource type's. */
  public int width() {
    return width;
  }

  static ColumnType parse(String text) {
    switch (text) {
      case "u8":
        return U8;
      case "i32":
        return I32;
      case "i64":
        return I64;
      case "name":
        return NAME;
      case "R*i64":
        return RESOURCES;
      default:
        throw new IllegalArgumentException("no type of columns: " + text);
    }
  }
}

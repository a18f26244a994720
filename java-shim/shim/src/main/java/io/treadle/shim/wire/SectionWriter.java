// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;

/**
 * Collects the rows of one section. A row's values are given one after another in the order of the schema, and ended by
 * {@link #end()}, {@link #endIfOther} or {@link #rowIfOther}. Rows that were returned must not be changed until the
 * frame is made.
 */
public final class SectionWriter {
  /** Bytes of a section's header. */
  static final int HEADER_BYTES = 12;

  final Section section;
  private final int resources;
  /** Bytes of a value, by column. */
  private final int[] widths;
  private final int rowBytes;
  private final long[] values;
  private int cursor;
  private List<long[]> rows = new ArrayList<>();
  /** The texts of {@link Section#STRINGS}, one a row. */
  private List<byte[]> texts = new ArrayList<>();

  SectionWriter(Section section, int resources) {
    this.section = section;
    this.resources = resources;
    widths = section.widths(resources);
    rowBytes = Arrays.stream(widths).sum();
    values = new long[widths.length];
  }

  /** The next value of the row, of any type but {@code R*i64}; a {@code name} is the index of a text. */
  public SectionWriter add(long value) {
    values[cursor++] = value;
    return this;
  }

  /** The next value of the row, a {@code u8} that is 1 for true. */
  public SectionWriter flag(boolean value) {
    return add(value ? 1 : 0);
  }

  /** The next values of the row, {@code R*i64}: an amount of each resource type; null is nothing. */
  public SectionWriter amounts(Resource resource) {
    ResourceInformation[] types = resource == null ? null : resource.getResources();
    for (int i = 0; i < resources; i++) {
      values[cursor++] = types == null || i >= types.length ? 0L : types[i].getValue();
    }
    return this;
  }

  /** The next values of the row, {@code R*i64}. */
  public SectionWriter amounts(long[] amounts) {
    System.arraycopy(amounts, 0, values, cursor, resources);
    cursor += resources;
    return this;
  }

  /** A whole row of {@link Section#STRINGS}. */
  void text(int index, String text) {
    byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
    texts.add(encoded);
    add(encoded.length).add(index).end();
  }

  /** Ends a row; returns its values. */
  public long[] end() {
    return endIfOther(null);
  }

  /**
   * Ends a row, which is left out if it is as another one.
   *
   * @param before the values of the row that was sent last; null for none
   * @return the values of the row
   */
  public long[] endIfOther(long[] before) {
    long[] row = rowIfOther(before);
    if (row == null) {
      return before;
    }
    write(row);
    return row;
  }

  /** Ends a row, which is left out; returns its values, for {@link #write}, null if they are those of another one. */
  public long[] rowIfOther(long[] before) {
    if (cursor != values.length) {
      throw new IllegalStateException(section + " has " + values.length + " columns, a row had " + cursor + " values");
    }
    cursor = 0;
    return Arrays.equals(values, before) ? null : values.clone();
  }

  /** Adds a row of these values. */
  public void write(long[] row) {
    rows.add(row);
  }

  /** Rows collected. */
  public int rows() {
    return rows.size();
  }

  /** Forgets the rows, and gives back their memory. */
  void clear() {
    rows = new ArrayList<>();
    texts = new ArrayList<>();
    cursor = 0;
  }

  private int bytes(int row) {
    return rowBytes + (section == Section.STRINGS ? texts.get(row).length : 0);
  }

  /** How many rows from {@code from} on fit in some bytes, with the section's header. */
  int fitting(int from, int bytes) {
    int room = bytes - HEADER_BYTES;
    int row = from;
    while (row < rows.size() && room >= bytes(row)) {
      room -= bytes(row);
      row++;
    }
    return row - from;
  }

  /** Bytes of some rows, with the section's header. */
  int bytes(int from, int count) {
    int sum = HEADER_BYTES;
    for (int row = from; row < from + count; row++) {
      sum += bytes(row);
    }
    return sum;
  }

  /** Appends a section of {@code count} rows to a little-endian buffer. */
  void copy(int from, int count, ByteBuffer target) {
    target.putShort((short) section.kind);
    target.putShort((short) 0);
    target.putInt(count);
    target.putInt(bytes(from, count) - HEADER_BYTES);
    for (int column = 0; column < widths.length; column++) {
      for (int row = from; row < from + count; row++) {
        put(target, widths[column], rows.get(row)[column]);
      }
    }
    if (section == Section.STRINGS) {
      texts.subList(from, from + count).forEach(target::put);
    }
  }

  private static void put(ByteBuffer target, int width, long value) {
    switch (width) {
      case 1:
        target.put((byte) value);
        break;
      case 4:
        target.putInt((int) value);
        break;
      default:
        target.putLong(value);
    }
  }
}

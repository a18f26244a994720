// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;

/**
 * Collects the rows of one section. A row's values are given one after another in the order of the schema, each by
 * the method of its column's type, and ended by {@link #end()}, {@link #endIfOther} or {@link #row()}.
 */
public final class SectionWriter {
  /** Bytes of a section's header. */
  static final int HEADER_BYTES = 12;

  private static final int KEPT_ROWS = 1 << 16;

  private final Section section;
  private final int resources;
  private final Column[] columns;
  private final long[] values;
  private final int rowBytes;
  private final ByteArrayOutputStream texts = new ByteArrayOutputStream();
  private byte[] textBytes = new byte[0];
  private int cursor;
  private int rows;

  SectionWriter(Section section, int resources) {
    this.section = section;
    this.resources = resources;
    List<ColumnType> types = section.columnTypes();
    int count = 0;
    for (ColumnType type : types) {
      count += type == ColumnType.RESOURCES ? resources : 1;
    }
    columns = new Column[count];
    values = new long[count];
    int next = 0;
    int bytes = 0;
    for (ColumnType type : types) {
      int copies = type == ColumnType.RESOURCES ? resources : 1;
      for (int i = 0; i < copies; i++) {
        columns[next++] = new Column(type);
        bytes += type.width();
      }
    }
    rowBytes = bytes;
  }

  /** The next value of the row, a {@code u8}. */
  public SectionWriter u8(int value) {
    return i64(value);
  }

  /** The next value of the row, a {@code u8} that is 1 for true. */
  public SectionWriter flag(boolean value) {
    return u8(value ? 1 : 0);
  }

  /** The next value of the row, an {@code i32}. */
  public SectionWriter i32(int value) {
    return i64(value);
  }

  /** The next value of the row, an {@code i64}. */
  public SectionWriter i64(long value) {
    values[cursor++] = value;
    return this;
  }

  /** The next value of the row, a {@code name}: the index of a text. */
  public SectionWriter name(int index) {
    return i32(index);
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
    i32(encoded.length).i32(index);
    texts.write(encoded, 0, encoded.length);
    end();
  }

  /** Ends a row. */
  public void end() {
    endOfRow();
    write(values);
  }

  /**
   * Ends a row, which is left out if it is as another one.
   *
   * @param before the values of the row that was sent last; null for none
   * @return the values of the row
   */
  public long[] endIfOther(long[] before) {
    long[] now = rowIfOther(before);
    if (now == null) {
      return before;
    }
    write(now);
    return now;
  }

  /** Ends a row, which is left out; returns its values, for {@link #write}, null if they are those of another one. */
  public long[] rowIfOther(long[] before) {
    endOfRow();
    return Arrays.equals(values, before) ? null : values.clone();
  }

  /** Ends a row, which is left out; returns its values, for {@link #write}. */
  public long[] row() {
    endOfRow();
    return values.clone();
  }

  /** Adds a row of these values. */
  public void write(long[] row) {
    for (int i = 0; i < columns.length; i++) {
      columns[i].put(row[i]);
    }
    rows++;
  }

  private void endOfRow() {
    if (cursor != columns.length) {
      throw new IllegalStateException(section + " has " + columns.length + " columns, a row had " + cursor + " values");
    }
    cursor = 0;
  }

  /** Rows collected. */
  public int rows() {
    return rows;
  }

  Section section() {
    return section;
  }

  void clear() {
    for (Column column : columns) {
      column.clear(KEPT_ROWS);
    }
    texts.reset();
    textBytes = new byte[0];
    cursor = 0;
    rows = 0;
  }

  /** To be called once all rows are there and before {@link #fitting} and {@link #copy}. */
  void seal() {
    textBytes = texts.size() == 0 ? new byte[0] : texts.toByteArray();
  }

  /** How many rows from {@code from} on fit in some bytes, with the section's header. */
  int fitting(int from, long bytes) {
    long room = bytes - HEADER_BYTES;
    if (section != Section.STRINGS) {
      return (int) Math.max(0, Math.min(rows - from, room / rowBytes));
    }
    int row = from;
    while (row < rows && room >= rowBytes + columns[0].intAt(row)) {
      room -= rowBytes + columns[0].intAt(row);
      row++;
    }
    return row - from;
  }

  /** Bytes of some rows, with the section's header. */
  int bytes(int from, int count) {
    return HEADER_BYTES + count * rowBytes + textBytes(from, count);
  }

  private int textBytes(int from, int count) {
    int sum = 0;
    if (section == Section.STRINGS) {
      for (int row = from; row < from + count; row++) {
        sum += columns[0].intAt(row);
      }
    }
    return sum;
  }

  /** Appends a section of {@code count} rows to a little-endian buffer. */
  void copy(int from, int count, ByteBuffer target) {
    target.putShort((short) section.kind());
    target.putShort((short) 0);
    target.putInt(count);
    target.putInt(bytes(from, count) - HEADER_BYTES);
    for (Column column : columns) {
      column.copy(from, count, target);
    }
    if (section == Section.STRINGS) {
      int start = textBytes(0, from);
      target.put(Arrays.copyOfRange(textBytes, start, start + textBytes(from, count)));
    }
  }
}

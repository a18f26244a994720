// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Decodes a frame, for tests. Fails on anything that the page docs/wire-format.md does not allow. */
public final class FrameReader {
  /** The rows of one section. */
  public static final class Table {
    private final Section section;
    private final int rows;
    private final Map<String, long[][]> columns = new HashMap<>();

    Table(Section section, int rows) {
      this.section = section;
      this.rows = rows;
    }

    /** The number of rows. */
    public int rows() {
      return rows;
    }

    /** One value of a column that is not {@code R*i64}. */
    public long at(int row, String column) {
      return column(column)[0][row];
    }

    /** One value of a column of {@code R*i64}: an amount of each resource type. */
    public long[] amounts(int row, String column) {
      long[][] values = column(column);
      long[] amounts = new long[values.length];
      for (int i = 0; i < amounts.length; i++) {
        amounts[i] = values[i][row];
      }
      return amounts;
    }

    private long[][] column(String name) {
      return columns.computeIfAbsent(name, none -> {
        throw new IllegalArgumentException(section + " has no column " + none);
      });
    }
  }

  private final ByteBuffer buffer;
  private final int resources;
  private final List<String> texts = new ArrayList<>();
  private final Map<Section, Table> tables = new EnumMap<>(Section.class);

  /** Decodes a frame. */
  public FrameReader(byte[] frame) {
    buffer = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
    check(frame.length >= 48 && new String(frame, 0, 4, StandardCharsets.US_ASCII).equals("TRDF"), "magic");
    check(buffer.getShort(4) == FrameWriter.VERSION, "version");
    check(buffer.getInt(44) == frame.length, "length");
    resources = buffer.getShort(40) & 0xffff;
    buffer.position(48);
    int last = 0;
    for (int i = 0; i < (buffer.getShort(42) & 0xffff); i++) {
      int kind = buffer.getShort();
      check(kind > last && kind <= Section.values().length, "kind " + kind + " after " + last);
      last = kind;
      read(Section.values()[kind - 1]);
    }
    check(buffer.remaining() == 0, "bytes left over");
  }

  private void read(Section section) {
    check(buffer.getShort() == 0, "reserved field of " + section);
    int rows = buffer.getInt();
    int end = buffer.getInt() + buffer.position();
    check(rows > 0, "empty section " + section);
    Table table = new Table(section, rows);
    for (JsonNode column : columns(section)) {
      String type = column.get(1).asText();
      long[][] values = new long[type.equals("R*i64") ? resources : 1][rows];
      for (long[] part : values) {
        for (int row = 0; row < rows; row++) {
          part[row] = number(type);
        }
      }
      table.columns.put(column.get(0).asText(), values);
    }
    if (section == Section.STRINGS) {
      for (int row = 0; row < rows; row++) {
        byte[] text = new byte[(int) table.at(row, "bytes")];
        buffer.get(text);
        texts.add(new String(text, StandardCharsets.UTF_8));
      }
    }
    check(buffer.position() == end, "length of " + section);
    tables.put(section, table);
  }

  /** The columns of a section by the schema: name and type. */
  static JsonNode columns(Section section) {
    return WireSchema.section(section.name()).get("columns");
  }

  private long number(String type) {
    if (type.equals("u8")) {
      return buffer.get() & 0xff;
    }
    return type.endsWith("i64") ? buffer.getLong() : buffer.getInt();
  }

  private static void check(boolean right, String what) {
    if (!right) {
      throw new IllegalArgumentException("bad frame: " + what);
    }
  }

  /** The texts of this frame. */
  public List<String> texts() {
    return texts;
  }

  /** A section's rows; none if the frame has no such section. */
  public Table table(Section section) {
    return tables.getOrDefault(section, new Table(section, 0));
  }

  /** Whether it is the first part of a snapshot. */
  public boolean isSnapshot() {
    return (flags() & 1) != 0;
  }

  /** Whether another part follows. */
  public boolean hasMore() {
    return (flags() & 2) != 0;
  }

  /** All flags. */
  public int flags() {
    return buffer.getShort(6) & 0xffff;
  }

  /** The epoch. */
  public long epoch() {
    return buffer.getLong(8);
  }

  /** The sequence number. */
  public long sequence() {
    return buffer.getLong(16);
  }

  /** The RM's clock. */
  public long rmTimeMs() {
    return buffer.getLong(24);
  }

  /** The number of resource types. */
  public int resources() {
    return resources;
  }
}

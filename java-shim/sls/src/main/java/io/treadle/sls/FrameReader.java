// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import io.treadle.shim.wire.FrameWriter;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;

/** One frame from the shim, as docs/wire-format.md has it, taken apart into columns. */
final class FrameReader {
  static final int FLAG_SNAPSHOT = 1;
  static final int FLAG_MORE = 2;
  static final int FLAG_OBSERVE = 4;

  static final int RESOURCE_TYPES = io.treadle.shim.wire.Section.RESOURCE_TYPES.kind;
  static final int QUEUES = io.treadle.shim.wire.Section.QUEUES.kind;
  static final int QUEUE_LIMITS = io.treadle.shim.wire.Section.QUEUE_LIMITS.kind;
  static final int USERS = io.treadle.shim.wire.Section.USERS.kind;
  static final int NODES = io.treadle.shim.wire.Section.NODES.kind;
  static final int APPLICATIONS = io.treadle.shim.wire.Section.APPLICATIONS.kind;
  static final int BLACKLIST = io.treadle.shim.wire.Section.BLACKLIST.kind;
  static final int REQUESTS = io.treadle.shim.wire.Section.REQUESTS.kind;
  static final int FATES = io.treadle.shim.wire.Section.FATES.kind;

  private static final int MAGIC = 'T' | 'R' << 8 | 'D' << 16 | 'F' << 24;

  private final int flags;
  private final long epoch;
  private final long sequence;
  private final int limit;
  private final int resources;
  private final Map<Integer, Section> sections = new HashMap<>();

  /** Reads the header and finds the sections. */
  FrameReader(byte[] frame) throws IOException {
    ByteBuffer bytes = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
    try {
      if (bytes.getInt() != MAGIC) {
        throw new IOException("not a frame: the magic number is missing");
      }
      int version = bytes.getShort();
      if (version != FrameWriter.VERSION) {
        throw new IOException("a frame of version " + version + ", not " + FrameWriter.VERSION);
      }
      flags = bytes.getShort();
      epoch = bytes.getLong();
      sequence = bytes.getLong();
      bytes.getLong();
      bytes.getInt();
      limit = bytes.getInt();
      resources = bytes.getShort();
      int count = bytes.getShort();
      bytes.position(FrameWriter.HEADER_BYTES);
      for (int i = 0; i < count; i++) {
        int kind = bytes.getShort();
        bytes.getShort();
        int rows = bytes.getInt();
        int length = bytes.getInt();
        sections.put(kind, new Section(bytes, rows, resources));
        bytes.position(bytes.position() + length);
      }
    } catch (BufferUnderflowException | IllegalArgumentException e) {
      throw new IOException("a frame of " + frame.length + " bytes ends too early", e);
    }
  }

  boolean has(int flag) {
    return (flags & flag) != 0;
  }

  long epoch() {
    return epoch;
  }

  long sequence() {
    return sequence;
  }

  int limit() {
    return limit;
  }

  int resources() {
    return resources;
  }

  /** A section, to be read column by column in the order of the schema; one without rows if the frame has none. */
  Section section(int kind) {
    Section section = sections.get(kind);
    return section == null ? new Section(ByteBuffer.allocate(0), 0, resources) : section;
  }

  /** The columns of one section, read from the first to the last. */
  static final class Section {
    private final ByteBuffer bytes;
    private final int rows;
    private final int resources;

    Section(ByteBuffer frame, int rows, int resources) {
      this.bytes = frame.slice().order(ByteOrder.LITTLE_ENDIAN);
      this.rows = rows;
      this.resources = resources;
    }

    int rows() {
      return rows;
    }

    int[] ints() {
      int[] column = new int[rows];
      for (int i = 0; i < rows; i++) {
        column[i] = bytes.getInt();
      }
      return column;
    }

    long[] longs() {
      long[] column = new long[rows];
      for (int i = 0; i < rows; i++) {
        column[i] = bytes.getLong();
      }
      return column;
    }

    byte[] flags() {
      byte[] column = new byte[rows];
      bytes.get(column);
      return column;
    }

    /** Amounts of resources: by row, then by resource type. */
    long[][] amounts() {
      long[][] column = new long[rows][resources];
      for (int r = 0; r < resources; r++) {
        for (int i = 0; i < rows; i++) {
          column[i][r] = bytes.getLong();
        }
      }
      return column;
    }

    /** Passes over columns of {@code bytesPerRow} in all. */
    Section skip(int bytesPerRow) {
      bytes.position(bytes.position() + rows * bytesPerRow);
      return this;
    }
  }
}

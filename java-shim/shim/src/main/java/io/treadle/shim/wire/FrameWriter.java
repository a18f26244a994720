// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * Collects rows of every section and makes frames of them: docs/wire-format.md, "A frame". Used again for frame after
 * frame by one thread.
 */
public final class FrameWriter {
  /** Bytes of a frame's header. */
  public static final int HEADER_BYTES = 48;
  /** No frame may be allowed less than this. */
  public static final int LEAST_MAX_BYTES = 4096;

  private static final int MAGIC = 'T' | 'R' << 8 | 'D' << 16 | 'F' << 24;
  /** Version of frames and of proposal frames; the sidecar must have the same. */
  public static final int VERSION = WireSchema.ROOT.get("wire").asInt();

  /** The engine forgets everything first. */
  public static final int FLAG_SNAPSHOT = 1;
  /** Nothing of the answer will be committed. */
  public static final int FLAG_OBSERVE = 4;
  private static final int FLAG_MORE = 2;

  /** The number of resource types, R. */
  public final int resources;
  private final int maxBytes;
  private final SectionWriter[] sections = new SectionWriter[Section.values().length];

  /**
   * A writer of empty frames.
   *
   * @param resources the number of resource types, R
   * @param maxBytes the longest frame, bytes
   */
  public FrameWriter(int resources, int maxBytes) {
    if (resources < 1 || resources > 0xffff) {
      throw new IllegalArgumentException("a frame holds 1 to 65535 resource types, not " + resources);
    }
    if (maxBytes < LEAST_MAX_BYTES) {
      throw new IllegalArgumentException("a frame must be allowed " + LEAST_MAX_BYTES + " bytes, not " + maxBytes);
    }
    this.resources = resources;
    this.maxBytes = maxBytes;
    for (Section section : Section.values()) {
      sections[section.ordinal()] = new SectionWriter(section, resources);
    }
  }

  /** Where the rows of a section go. */
  public SectionWriter section(Section section) {
    return sections[section.ordinal()];
  }

  /** Adds a text with its index; no longer than a quarter of {@link #LEAST_MAX_BYTES}. */
  public void text(int index, String text) {
    section(Section.STRINGS).text(index, text);
  }

  /** Forgets all rows. */
  public void clear() {
    for (SectionWriter section : sections) {
      section.clear();
    }
  }

  /**
   * Makes frames of the rows collected, at least one, and forgets the rows. A section that replaces all its earlier
   * rows is never split.
   *
   * @param epoch one per scheduler instance and engine connection
   * @param firstSequence the sequence number of the first part; the others count on
   * @param rmTimeMs the RM's clock, milliseconds since 1970
   * @param flags of all parts; {@link #FLAG_SNAPSHOT} is the first part's alone
   * @param configuration raised by each -refreshQueues
   * @param limit the most proposals that the answer may hold
   * @throws FrameTooSmallException if a section that must not be split does not fit in a frame
   */
  public List<byte[]> frames(long epoch, long firstSequence, long rmTimeMs, int flags, int configuration, int limit) {
    try {
      List<Part> parts = split();
      List<byte[]> frames = new ArrayList<>(parts.size());
      for (int i = 0; i < parts.size(); i++) {
        int its = flags & (i == 0 ? ~0 : ~FLAG_SNAPSHOT) | (i < parts.size() - 1 ? FLAG_MORE : 0);
        ByteBuffer frame = ByteBuffer.allocate(parts.get(i).bytes).order(ByteOrder.LITTLE_ENDIAN);
        frame.putInt(MAGIC).putShort((short) VERSION).putShort((short) its);
        frame.putLong(epoch).putLong(firstSequence + i).putLong(rmTimeMs).putInt(configuration).putInt(limit);
        frame.putShort((short) resources).putShort((short) parts.get(i).sections.size()).putInt(parts.get(i).bytes);
        parts.get(i).sections.forEach(section -> section.accept(frame));
        frames.add(frame.array());
      }
      return frames;
    } finally {
      clear();
    }
  }

  private List<Part> split() {
    List<Part> parts = new ArrayList<>();
    Part part = new Part();
    parts.add(part);
    for (SectionWriter section : sections) {
      int row = 0;
      while (row < section.rows()) {
        int count = section.fitting(row, maxBytes - part.bytes);
        boolean split = count < section.rows() - row;
        if (split && section.section.whole || count == 0) {
          if (part.sections.isEmpty()) {
            throw new FrameTooSmallException(section.section, section.bytes(row, section.rows() - row), maxBytes);
          }
          part = new Part();
          parts.add(part);
          continue;
        }
        int from = row;
        part.sections.add(frame -> section.copy(from, count, frame));
        part.bytes += section.bytes(row, count);
        row += count;
      }
    }
    return parts;
  }

  /** The cluster does not fit on the wire: a section that cannot be split is longer than a frame may be. */
  public static final class FrameTooSmallException extends IllegalStateException {
    private static final long serialVersionUID = 1L;

    /** With what does not fit. */
    public FrameTooSmallException(Section section, long bytes, int maxBytes) {
      super("the section " + section + " needs a frame of more than " + bytes
          + " bytes; raise yarn.scheduler.treadle.frame.max-bytes, which is " + maxBytes
          + ", and restart the ResourceManager");
    }
  }

  /** What goes into one frame. */
  private static final class Part {
    /** What copies some rows of a section each. */
    private final List<Consumer<ByteBuffer>> sections = new ArrayList<>();
    private int bytes = HEADER_BYTES;
  }
}

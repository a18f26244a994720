// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;

/**
 * An engine's answer: docs/wire-format.md, "A proposal frame". Reading checks the form only; proposals are checked at
 * commit time. Engines in the ResourceManager's JVM, such as those of the benchmark and of tests, encode their answers
 * here.
 */
public final class ProposalFrame {
  /** Bytes before the columns. */
  public static final int HEADER_BYTES = 40;

  /** So many proposals at most are committed together: an answer may have that many, less one, beyond its limit. */
  public static final int TRANSACTION_MAX = 512;

  /** A longer status is refused, unread. */
  public static final int STATUS_BYTES_MAX = 1 << 16;

  /** The longest column of held indices: indices beyond it are not named. */
  private static final int HELD_BYTES_MAX = 1 << 16;

  /** The engine lost track and asks for a snapshot. */
  public static final int FLAG_RESEND = WireSchema.flag("RESEND");

  private static final int MAGIC = 'T' | 'R' << 8 | 'D' << 16 | 'P' << 24;
  private static final int VERSION_AT = 4;
  private static final int FLAG_AGAIN = WireSchema.flag("AGAIN");
  private static final int FLAG_TRANSACTIONS = WireSchema.flag("TRANSACTIONS");
  private static final int FLAG_UNSERVED = WireSchema.flag("UNSERVED");
  private static final int FLAG_HELD = WireSchema.flag("HELD");
  private static final int FLAGS = FLAG_RESEND | FLAG_AGAIN | FLAG_TRANSACTIONS | FLAG_UNSERVED | FLAG_HELD;
  private static final int COLUMNS = 3;
  /** Bytes of the sizes of both columns of held indices. */
  private static final int HELD_SIZES = 2 * Integer.BYTES;

  /** The epoch of the frame that is answered. */
  public final long epoch;
  /** The sequence number of the frame that is answered. */
  public final long sequence;
  /** Whether the engine lost track and asks for a snapshot. */
  public final boolean resend;
  /** Whether there is more to come: the engine is to be asked again after a tick. */
  public final boolean again;
  /** Whether an application that asks has no living engine, or none shows life: the answer does not renew the lease. */
  public final boolean unserved;
  /** Whether each proposal has a {@link #transaction}. */
  public final boolean hasTransactions;
  /** The indices of applications with an ask that waits for the policy alone; not to be changed. */
  public final BitSet heldApplications;
  /** The indices of nodes of which the policy keeps room for other asks than those that could have it now. */
  public final BitSet heldNodes;
  /** The status, a JSON object as text; empty if nothing changed. */
  public final String status;
  private final int[][] columns;

  private ProposalFrame(ByteBuffer bytes, int limit) throws IOException {
    int flags = bytes.getShort(6) & 0xffff;
    if ((flags & ~FLAGS) != 0) {
      throw new IOException("unknown flags in an answer: " + flags);
    }
    resend = (flags & FLAG_RESEND) != 0;
    again = (flags & FLAG_AGAIN) != 0;
    unserved = (flags & FLAG_UNSERVED) != 0;
    hasTransactions = (flags & FLAG_TRANSACTIONS) != 0;
    epoch = bytes.getLong(8);
    sequence = bytes.getLong(16);
    if (bytes.getLong(24) < 0) {
      throw new IOException("an answer that took " + bytes.getLong(24) + " microseconds");
    }
    int rows = bytes.getInt(32);
    if (rows < 0 || rows > (hasTransactions ? rowsMax(limit) : limit)) {
      throw new IOException("an answer with " + rows + " proposals, allowed are 0 to " + limit);
    }
    int statusBytes = bytes.getInt(36);
    int count = hasTransactions ? COLUMNS + 1 : COLUMNS;
    long held = bytes.capacity() - HEADER_BYTES - (long) Integer.BYTES * count * rows - statusBytes;
    boolean holds = (flags & FLAG_HELD) != 0;
    if (statusBytes < 0 || held < 0 || held > 0 && !holds) {
      throw new IOException("an answer of " + bytes.capacity() + " bytes for " + rows + " proposals and a status of "
          + statusBytes + " bytes");
    }
    if (statusBytes > STATUS_BYTES_MAX) {
      throw new IOException("an answer with a status of " + statusBytes + " bytes; at most " + STATUS_BYTES_MAX
          + " are taken");
    }
    columns = new int[count][rows];
    bytes.position(HEADER_BYTES);
    for (int[] column : columns) {
      bytes.asIntBuffer().get(column);
      bytes.position(bytes.position() + Integer.BYTES * rows);
    }
    checkTransactions(limit);
    int applications = held < HELD_SIZES ? -1 : bytes.getInt();
    int nodes = held < HELD_SIZES ? -1 : bytes.getInt();
    if (holds && (Math.min(applications, nodes) < 0 || Math.max(applications, nodes) > HELD_BYTES_MAX
        || HELD_SIZES + applications + nodes != held)) {
      throw new IOException(
          "an answer of " + bytes.capacity() + " bytes whose columns of what is held back do not fit");
    }
    heldApplications = bits(bytes, applications);
    heldNodes = bits(bytes, nodes);
    try {
      status = StandardCharsets.UTF_8.newDecoder().decode(bytes).toString();
    } catch (CharacterCodingException e) {
      throw new IOException("an answer whose status is not UTF-8");
    }
  }

  private static BitSet bits(ByteBuffer bytes, int length) {
    byte[] some = new byte[Math.max(0, length)];
    bytes.get(some);
    return BitSet.valueOf(some);
  }

  private void checkTransactions(int limit) throws IOException {
    int last = 0;
    for (int row = 0; hasTransactions && row < size(); row++) {
      if (transaction(row) < last) {
        throw new IOException("an answer with transaction " + transaction(row) + " after " + last);
      }
      if (row >= limit && transaction(row) > last) {
        throw new IOException("an answer in which a transaction begins beyond its limit of " + limit + " proposals");
      }
      last = transaction(row);
    }
  }

  /** The length of the longest answer to a frame with such a limit, bytes. */
  public static int bytesMax(int limit) {
    return HEADER_BYTES + 4 * (COLUMNS + 1) * rowsMax(limit) + HELD_SIZES + 2 * HELD_BYTES_MAX + STATUS_BYTES_MAX;
  }

  /** The most proposals in an answer: its limit bounds where transactions begin, not where they end. */
  private static int rowsMax(int limit) {
    return limit == 0 ? 0 : (int) Math.min(Integer.MAX_VALUE, limit + (long) TRANSACTION_MAX - 1);
  }

  /** The bytes of an answer with rows of {application, request key, node} and nothing else; they are not checked. */
  public static byte[] encode(int flags, long epoch, long sequence, int[]... rows) {
    ByteBuffer bytes = ByteBuffer.allocate(HEADER_BYTES + Integer.BYTES * COLUMNS * rows.length)
        .order(ByteOrder.LITTLE_ENDIAN);
    bytes.putInt(MAGIC).putShort((short) FrameWriter.VERSION).putShort((short) flags);
    bytes.putLong(epoch).putLong(sequence).putLong(0).putInt(rows.length).putInt(0);
    for (int column = 0; column < COLUMNS; column++) {
      for (int[] row : rows) {
        bytes.putInt(row[column]);
      }
    }
    return bytes.array();
  }

  /**
   * Decodes an answer.
   *
   * @param bytes the whole answer
   * @param limit the most proposals that are taken, at least 0, but for the end of the last transaction
   * @throws IOException if the bytes are not exactly one proposal frame, or hold more than that
   */
  public static ProposalFrame parse(byte[] bytes, int limit) throws IOException {
    ByteBuffer buffer = ByteBuffer.wrap(bytes == null ? new byte[0] : bytes).order(ByteOrder.LITTLE_ENDIAN);
    checkVersion(buffer);
    if (buffer.capacity() < HEADER_BYTES) {
      throw new IOException("an answer of " + buffer.capacity() + " bytes, shorter than its header");
    }
    return new ProposalFrame(buffer, limit);
  }

  /** Proposals of the shim's own about the frame that an answer is to: rows of {application, request key, node}. */
  public static ProposalFrame of(ProposalFrame answer, int[]... rows) {
    try {
      return parse(encode(0, answer.epoch, answer.sequence, rows), rows.length);
    } catch (IOException e) {
      throw new IllegalStateException("an answer that was just written", e);
    }
  }

  /** Before anything else: headers of other versions may be shorter. */
  private static void checkVersion(ByteBuffer buffer) throws IOException {
    if (buffer.capacity() < VERSION_AT + Short.BYTES) {
      throw new IOException("an answer of " + buffer.capacity() + " bytes, shorter than its header");
    }
    if (buffer.getInt(0) != MAGIC) {
      throw new IOException("an answer that does not begin with TRDP");
    }
    int version = buffer.getShort(VERSION_AT) & 0xffff;
    if (version != FrameWriter.VERSION) {
      throw new IOException("the sidecar speaks version " + version + " of the wire, the shim version "
          + FrameWriter.VERSION + ": give both the same release of Treadle");
    }
  }

  /** The transaction of a proposal in [0, size()), which never falls; if there are transactions. */
  public int transaction(int position) {
    return columns[COLUMNS][position];
  }

  /** Where the transaction of a proposal ends: the first position after it that is another's; without any, the next. */
  public int endOfTransaction(int position) {
    int end = position + 1;
    while (hasTransactions && end < size() && transaction(end) == transaction(position)) {
      end++;
    }
    return end;
  }

  /** How many proposals are looked at where {@code limit} are allowed: the last transaction among them is not cut. */
  public int endWithin(int limit) {
    if (limit <= 0) {
      return 0;
    }
    return limit >= size() ? size() : endOfTransaction(limit - 1);
  }

  /** The number of proposals. */
  public int size() {
    return columns[0].length;
  }

  /** The application index of a proposal in [0, size()); any value at all. */
  public int application(int position) {
    return columns[0][position];
  }

  /** The request-key index of a proposal in [0, size()); any value at all. */
  public int requestKey(int position) {
    return columns[1][position];
  }

  /** The node index of a proposal in [0, size()); any value at all. */
  public int node(int position) {
    return columns[2][position];
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.cluster.Answers;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * An engine in this JVM that does what a test says. A link makes its engines by the name of their class, so the script
 * is static: one test at a time.
 */
public final class ScriptedEngine implements Engine {
  /** What is answered to a frame. */
  public interface Script {
    byte[] answer(Frame frame) throws IOException;
  }

  /** The header of a frame. */
  public static final class Frame {
    private final ByteBuffer bytes;

    Frame(byte[] bytes) {
      this.bytes = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    public boolean snapshot() {
      return (bytes.getShort(6) & 1) != 0;
    }

    public boolean observe() {
      return (bytes.getShort(6) & 4) != 0;
    }

    public long epoch() {
      return bytes.getLong(8);
    }

    public long sequence() {
      return bytes.getLong(16);
    }

    public int configuration() {
      return bytes.getInt(32);
    }

    public int limit() {
      return bytes.getInt(36);
    }

    /** An answer to this frame; proposals as triples of application, key and node. */
    public byte[] answer(int... proposals) {
      return ScriptedEngine.answer(epoch(), sequence(), 0, "", proposals);
    }
  }

  private static final AtomicInteger MADE = new AtomicInteger();
  private static final AtomicInteger CLOSED = new AtomicInteger();
  private static final List<Frame> FRAMES = new CopyOnWriteArrayList<>();
  private static volatile Script script = Frame::answer;

  private final AtomicBoolean closed = new AtomicBoolean();

  /** Made by the link. */
  public ScriptedEngine() {
    MADE.incrementAndGet();
  }

  /** Begins a test. */
  public static void reset(Script first) {
    script = first;
    MADE.set(0);
    CLOSED.set(0);
    FRAMES.clear();
  }

  /** From now on. */
  public static void script(Script next) {
    script = next;
  }

  /** How many engines are open. */
  public static int open() {
    return MADE.get() - CLOSED.get();
  }

  /** Does not answer before all engines are closed. */
  public static byte[] hang() throws IOException {
    synchronized (CLOSED) {
      while (open() > 0) {
        try {
          CLOSED.wait();
        } catch (InterruptedException e) {
          throw new InterruptedIOException();
        }
      }
    }
    throw new IOException("closed");
  }

  /** The headers of all frames since {@link #reset}. */
  public static List<Frame> frames() {
    return FRAMES;
  }

  /**
   * Everything that could be proposed with small indices, to one node: most of it is turned down, what is asked for is
   * placed.
   */
  public static byte[] proposeAll(Frame frame) {
    int[] triples = new int[3 * 16];
    for (int i = 0; i < 16; i++) {
      triples[3 * i] = i / 4;
      triples[3 * i + 1] = i % 4;
    }
    return frame.limit() < 16 ? frame.answer() : frame.answer(triples);
  }

  /** The first request of the first application, to the first node, if there is anything to be committed. */
  public static byte[] proposeTheFirst(Frame frame) {
    return frame.limit() < 1 || frame.observe() ? frame.answer() : frame.answer(0, 0, 0);
  }

  /** A proposal frame; proposals as triples of application, key and node. */
  public static byte[] answer(long epoch, long sequence, int flags, String status, int... proposals) {
    int[][] rows = new int[proposals.length / 3][];
    for (int row = 0; row < rows.length; row++) {
      rows[row] = Arrays.copyOfRange(proposals, 3 * row, 3 * row + 3);
    }
    return Answers.encode(flags, epoch, sequence, 1, status, rows);
  }

  /** An answer with rows of {application, request key, node, transaction}. */
  public static byte[] inTransactions(Frame frame, int[]... rows) {
    return Answers.encode(4, frame.epoch(), frame.sequence(), 1, "", rows);
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    Frame header = new Frame(frame);
    if (FRAMES.size() < 10_000) {
      FRAMES.add(header);
    }
    return script.answer(header);
  }

  @Override
  public void close() {
    if (!closed.getAndSet(true)) {
      synchronized (CLOSED) {
        CLOSED.incrementAndGet();
        CLOSED.notifyAll();
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Answers;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ProposalFrameTest {
  private static final int LIMIT = 64;

  /** A right answer with some proposals with the status "{}". */
  static byte[] answer(int rows) {
    int[][] proposals = new int[rows][];
    for (int row = 0; row < rows; row++) {
      proposals[row] = new int[] {row, rows + row, 2 * rows + row};
    }
    return Answers.encode(0, 5, 6, 7, "{}", proposals);
  }

  @Test
  void columnsFollowOneAnother() throws Exception {
    ProposalFrame frame = ProposalFrame.parse(answer(4), LIMIT);
    assertEquals(4, frame.size());
    assertEquals(3, frame.application(3));
    assertEquals(4, frame.requestKey(0));
    assertEquals(11, frame.node(3));
    assertEquals("{}", frame.status);
    assertThrows(IndexOutOfBoundsException.class, () -> frame.application(4));
    assertThrows(IndexOutOfBoundsException.class, () -> frame.requestKey(-1));
  }

  private static byte[] held(BitSet applications, BitSet nodes) {
    return Answers.encode(16, 5, 6, 7, "{}", applications, nodes, new int[] {1, 2, 3});
  }

  @Test
  void whatIsHeldBackIsNamedByIndex() throws Exception {
    BitSet applications = new BitSet();
    applications.set(0);
    applications.set(9);
    BitSet last = new BitSet();
    last.set((1 << 19) - 1);
    ProposalFrame frame = ProposalFrame.parse(held(applications, last), LIMIT);
    assertEquals(applications, frame.heldApplications);
    assertEquals(last, frame.heldNodes);
    assertEquals(3, frame.node(0));
    assertEquals("{}", frame.status);
    assertTrue(ProposalFrame.parse(answer(1), LIMIT).heldNodes.isEmpty());
    assertTrue(held(last, last).length < ProposalFrame.bytesMax(1));
  }

  @Test
  void everyWrongFieldIsNamed() {
    BitSet beyond = new BitSet();
    beyond.set(1 << 19);
    refused("shorter than its header", new byte[5]);
    refused("shorter than its header", Arrays.copyOf(answer(4), 39));
    String versions = "the sidecar speaks version 1 of the wire, the shim version " + FrameWriter.VERSION
        + ": give both the same release";
    byte[] old = Arrays.copyOf(answer(4), 16);
    old[4] = 1;
    refused(versions, old);
    refused("does not begin with TRDP", changed(0, 'X'));
    refused(versions, changed(4, 1));
    refused("flags", changed(6, 32));
    refused("held back do not fit", changed(6, 16));
    refused("held back do not fit", held(new BitSet(), beyond));
    refused("proposals and a status", changed(6, 4));
    refused("proposals, allowed are 0 to 64", answer(LIMIT + 1));
    refused("status", changed(36, 3));
    refused("microseconds", changed(31, 0x80));
    refused("not UTF-8", changed(40 + 12 * 4, 0xff));
  }

  /** What is refused has not become a text. */
  @Test
  void aStatusBeyond64KiBIsRefused() throws Exception {
    assertEquals(1 << 16, ProposalFrame.parse(withStatus(1 << 16), LIMIT).status.length());
    refused("a status of 65537 bytes; at most 65536 are taken", withStatus((1 << 16) + 1));
    refused("a status of 8388608 bytes; at most 65536 are taken", withStatus(8 << 20));
  }

  private static byte[] withStatus(int bytes) {
    char[] text = new char[bytes];
    Arrays.fill(text, ' ');
    return Answers.encode(0, 5, 6, 7, new String(text));
  }

  private static byte[] changed(int position, int value) {
    byte[] bytes = answer(4);
    bytes[position] = (byte) value;
    return bytes;
  }

  private static void refused(String part, byte[] bytes) {
    IOException e =
        assertThrows(IOException.class, () -> ProposalFrame.parse(bytes, LIMIT));
    assertTrue(e.getMessage().contains(part), e.getMessage());
  }

  @Test
  void transactionsLieNextToEachOther() throws Exception {
    ProposalFrame frame = ProposalFrame.parse(withTransactions(0, 0, 3), LIMIT);
    assertTrue(frame.hasTransactions);
    assertEquals(3, frame.transaction(2));
    refused("transaction 1 after 2", withTransactions(0, 2, 1));
    refused("transaction -1 after 0", withTransactions(-1, 0, 0));
    ProposalFrame without = ProposalFrame.parse(answer(1), LIMIT);
    assertThrows(IndexOutOfBoundsException.class, () -> without.transaction(0));
  }

  @Test
  void theLastTransactionMayEndBeyondTheLimitAndNoneBeginsThere() throws Exception {
    int[] numbers = new int[LIMIT + 511];
    Arrays.fill(numbers, LIMIT - 1, numbers.length, 1);
    assertEquals(numbers.length, ProposalFrame.parse(withTransactions(numbers), LIMIT).size());
    refused("allowed are 0 to 64", withTransactions(Arrays.copyOf(numbers, numbers.length + 1)));
    numbers[LIMIT - 1] = 0;
    refused("a transaction begins beyond its limit of 64", withTransactions(numbers));
    ProposalFrame none = ProposalFrame.parse(answer(0), 0);
    assertEquals(0, none.size());
    assertThrows(IOException.class, () -> ProposalFrame.parse(withTransactions(0), 0));
  }

  private static byte[] withTransactions(int... numbers) {
    int[][] rows = new int[numbers.length][];
    for (int row = 0; row < rows.length; row++) {
      rows[row] = new int[] {row, row, row, numbers[row]};
    }
    return Answers.encode(4, 5, 6, 7, "", rows);
  }

  @Test
  void negativeAndOverflowingCountsAreRefused() {
    for (int rows : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 0x15555556}) {
      byte[] bytes = answer(4);
      ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(32, rows);
      assertThrows(IOException.class, () -> ProposalFrame.parse(bytes, Integer.MAX_VALUE));
      byte[] status = answer(4);
      ByteBuffer.wrap(status).order(ByteOrder.LITTLE_ENDIAN).putInt(36, rows);
      assertThrows(IOException.class, () -> ProposalFrame.parse(status, LIMIT));
    }
    assertThrows(IOException.class, () -> ProposalFrame.parse(null, LIMIT));
  }

  @Test
  void garbageIsReadOrRefusedButNothingElse() {
    Random random = new Random(20);
    int read = 0;
    for (int i = 0; i < 200_000; i++) {
      byte[] bytes = answer(random.nextInt(4));
      int changes = random.nextInt(4);
      for (int change = 0; change < changes; change++) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      }
      byte[] cut = random.nextInt(4) == 0 ? java.util.Arrays.copyOf(bytes, random.nextInt(bytes.length + 8)) : bytes;
      try {
        ProposalFrame frame = ProposalFrame.parse(cut, LIMIT);
        assertTrue(frame.size() <= LIMIT);
        for (int row = 0; row < frame.size(); row++) {
          frame.application(row);
          frame.node(row);
        }
        read++;
      } catch (IOException e) {
        assertTrue(e.getMessage().length() < 200, e.getMessage());
      }
    }
    assertTrue(read > 1000 && read < 199_000, "read " + read);
  }
}

package io.treadle.shim.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ProposalFrameTest {
  private static final int LIMIT = 64;

  /** A right answer of so many proposals with the status "{}". */
  static byte[] answer(int rows) {
    ByteBuffer buffer = ByteBuffer.allocate(40 + 12 * rows + 2).order(ByteOrder.LITTLE_ENDIAN);
    buffer.put("TRDP".getBytes(StandardCharsets.US_ASCII)).putShort((short) 1).putShort((short) 0);
    buffer.putLong(5).putLong(6).putLong(7).putInt(rows).putInt(2);
    for (int i = 0; i < 3 * rows; i++) {
      buffer.putInt(i);
    }
    return buffer.put("{}".getBytes(StandardCharsets.US_ASCII)).array();
  }

  @Test
  void columnsFollowOneAnother() throws Exception {
    ProposalFrame frame = ProposalFrame.parse(answer(4), LIMIT);
    assertEquals(4, frame.size());
    assertEquals(3, frame.application(3));
    assertEquals(4, frame.requestKey(0));
    assertEquals(11, frame.node(3));
    assertEquals("{}", frame.status());
    assertThrows(IndexOutOfBoundsException.class, () -> frame.application(4));
    assertThrows(IndexOutOfBoundsException.class, () -> frame.requestKey(-1));
  }

  @Test
  void everyWrongFieldIsNamed() {
    refused("shorter than its header", new byte[39]);
    refused("does not begin with TRDP", changed(0, 'X'));
    refused("version", changed(4, 2));
    refused("flags", changed(6, 4));
    refused("proposals, allowed are 0 to 64", answer(LIMIT + 1));
    refused("status", changed(36, 3));
    refused("microseconds", changed(31, 0x80));
    refused("not UTF-8", changed(40 + 12 * 4, 0xff));
  }

  private static byte[] changed(int position, int value) {
    byte[] bytes = answer(4);
    bytes[position] = (byte) value;
    return bytes;
  }

  private static void refused(String part, byte[] bytes) {
    MalformedReplyException e =
        assertThrows(MalformedReplyException.class, () -> ProposalFrame.parse(bytes, LIMIT));
    assertTrue(e.getMessage().contains(part), e.getMessage());
  }

  @Test
  void negativeAndOverflowingCountsAreRefused() {
    for (int rows : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 0x15555556}) {
      byte[] bytes = answer(4);
      ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(32, rows);
      assertThrows(MalformedReplyException.class, () -> ProposalFrame.parse(bytes, Integer.MAX_VALUE));
      byte[] status = answer(4);
      ByteBuffer.wrap(status).order(ByteOrder.LITTLE_ENDIAN).putInt(36, rows);
      assertThrows(MalformedReplyException.class, () -> ProposalFrame.parse(status, LIMIT));
    }
    assertThrows(MalformedReplyException.class, () -> ProposalFrame.parse(null, LIMIT));
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
      } catch (MalformedReplyException e) {
        assertTrue(e.getMessage().length() < 200, e.getMessage());
      }
    }
    assertTrue(read > 1000 && read < 199_000, "read " + read);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.FrameWriter.FrameTooSmallException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class FrameWriterTest {
  @Test
  void anEmptyFrameIsItsHeader() throws Exception {
    List<byte[]> frames = new FrameWriter(2, 4096).frames(9, 17, 2, FrameWriter.FLAG_OBSERVE, 3, 4);
    assertEquals(1, frames.size());
    FrameReader frame = new FrameReader(frames.get(0));
    assertEquals(48, frames.get(0).length);
    assertEquals(9, frame.epoch());
    assertEquals(17, frame.sequence());
    assertEquals(4, frame.flags());
  }

  @Test
  void rowsAreSplitOverFramesAndNoneIsLost() throws Exception {
    FrameWriter writer = new FrameWriter(2, 4096);
    for (int i = 0; i < 300; i++) {
      writer.text(i, "text " + i);
    }
    for (int i = 0; i < 1000; i++) {
      writer.section(Section.TAGS).add(i).add(i % 7).end();
      writer.section(Section.FATES).add(-i).add(i).add(1).add(i % 28).end();
    }
    List<byte[]> frames = writer.frames(1, 5, 2, FrameWriter.FLAG_SNAPSHOT, 3, 4);
    assertTrue(frames.size() > 3, "" + frames.size());
    List<String> texts = new ArrayList<>();
    List<Long> fates = new ArrayList<>();
    int tags = 0;
    for (int i = 0; i < frames.size(); i++) {
      assertTrue(frames.get(i).length <= 4096);
      FrameReader frame = new FrameReader(frames.get(i));
      assertEquals(i == 0, frame.isSnapshot());
      assertEquals(i < frames.size() - 1, frame.hasMore());
      assertEquals(5 + i, frame.sequence());
      texts.addAll(frame.texts());
      for (int row = 0; row < frame.table(Section.TAGS).rows(); row++) {
        assertEquals(tags++, frame.table(Section.TAGS).at(row, "application"));
      }
      for (int row = 0; row < frame.table(Section.FATES).rows(); row++) {
        fates.add(frame.table(Section.FATES).at(row, "sequence"));
      }
    }
    assertEquals(300, texts.size());
    assertEquals("text 299", texts.get(299));
    assertEquals(1000, tags);
    assertEquals(1000, fates.size());
    assertEquals(-999L, fates.get(999));
  }

  @Test
  void aWriterIsEmptyAgainAfterItsFrames() throws Exception {
    FrameWriter writer = new FrameWriter(2, 4096);
    writer.section(Section.TAGS).add(1).add(0).end();
    assertTrue(writer.frames(1, 1, 2, FrameWriter.FLAG_SNAPSHOT, 3, 4).get(0).length > 48);
    assertEquals(48, writer.frames(1, 2, 2, FrameWriter.FLAG_SNAPSHOT, 3, 4).get(0).length);
  }

  @Test
  void theQueueTreeIsNeverSplit() throws Exception {
    FrameWriter writer = new FrameWriter(2, 4096);
    for (int i = 0; i < 150; i++) {
      writer.text(i, "a text that fills frames " + i);
      queue(writer, i);
    }
    int seen = 0;
    for (byte[] bytes : writer.frames(1, 1, 2, FrameWriter.FLAG_SNAPSHOT, 3, 4)) {
      int rows = new FrameReader(bytes).table(Section.QUEUES).rows();
      assertTrue(rows == 0 || rows == 150, "" + rows);
      seen += rows;
    }
    assertEquals(150, seen);
    for (int i = 0; i < 200; i++) {
      queue(writer, i);
    }
    FrameTooSmallException e = assertThrows(FrameTooSmallException.class,
        () -> writer.frames(1, 1, 2, FrameWriter.FLAG_SNAPSHOT, 3, 4));
    assertTrue(e.getMessage().contains("yarn.scheduler.treadle.frame.max-bytes"), e.getMessage());
  }

  private static void queue(FrameWriter writer, int index) {
    writer.section(Section.QUEUES).add(index).add(-1).add(0).add(1).flag(true).add(0).flag(false).add(0).end();
  }

  @Test
  void rowsOfTheWrongLengthAreRefused() {
    FrameWriter writer = new FrameWriter(2, 4096);
    assertThrows(IllegalStateException.class, () -> writer.section(Section.TAGS).add(1).end());
    assertFalse(writer.section(Section.TAGS).rows() > 0);
    assertThrows(IllegalArgumentException.class, () -> new FrameWriter(0, 4096));
    assertThrows(IllegalArgumentException.class, () -> new FrameWriter(2, 100));
  }
}

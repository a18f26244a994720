// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.ProposalFrame;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FirstFitEngineTest {
  private static final long EPOCH = 77;
  private static final int LIMIT = 100;
  private static final long[] ONE_GB = {1024, 1};
  private static final JsonNode SCHEMA = schema();

  private final FrameWriter writer = new FrameWriter(2, 1 << 20);
  private final FirstFitEngine engine = new FirstFitEngine();
  private long sequence;

  @Test
  void spreadsOverTheNodesAndStopsWhereNothingIsFree() throws Exception {
    types(true, false);
    node(0, 2048);
    node(1, 3072);
    application(0, true, false);
    request(0, 20, 10);
    ProposalFrame answer = decide(true);
    assertEquals(EPOCH, answer.epoch);
    assertEquals(1, answer.sequence);
    Map<Integer, Integer> perNode = new HashMap<>();
    for (int i = 0; i < answer.size(); i++) {
      perNode.merge(answer.node(i), 1, Integer::sum);
    }
    assertEquals(2, perNode.get(0));
    assertEquals(3, perNode.get(1));
  }

  @Test
  void aResourceThatIsNotCountedKeepsNothingAway() throws Exception {
    types(true, false);
    row(Section.NODES, "state", 1, "free", new long[] {2048, 0});
    application(0, true, false);
    request(0, 20, 2);
    assertEquals(2, decide(true).size());
  }

  @Test
  void servesNoApplicationThatIsNotActive() throws Exception {
    types(true, true);
    node(0, 8192);
    application(0, false, false);
    request(0, 20, 2);
    assertEquals(0, decide(true).size());
    application(0, true, false);
    assertEquals(2, decide(false).size());
  }

  @Test
  void mastersComeFirst() throws Exception {
    types(true, true);
    node(0, 1024);
    application(0, true, false);
    request(0, 20, 1);
    application(1, true, true);
    request(1, 0, 1);
    ProposalFrame answer = decide(true);
    assertEquals(1, answer.size());
    assertEquals(1, answer.application(0));
  }

  @Test
  void staysWithinTheMaximumOfEveryQueueAbove() throws Exception {
    types(true, true);
    queue(0, -1, 4096, 2048);
    queue(1, 0, 8192, 0);
    node(0, 8192);
    application(0, true, false, 1);
    request(0, 20, 5);
    assertEquals(2, decide(true).size());
  }

  @Test
  void whatWasRejectedIsProposedAgainAndWhatWasCommittedIsNot() throws Exception {
    types(true, true);
    node(0, 1024);
    application(0, true, false);
    request(0, 20, 1);
    assertEquals(1, decide(true).size());
    fates(1, 1, 9);
    assertEquals(1, decide(false).size(), "rejected: nothing has changed");
    fates(2, 1, 0);
    node(0, 0);
    request(0, 20, 1);
    assertEquals(0, decide(false).size(), "nothing is free");
    request(0, 20, 0);
    assertEquals(0, decide(false).size(), "committed: the frame says what is left");
  }

  /** The shim may write a frame before it commits the answer to the last one. */
  @Test
  void whatHasNoFateYetCountsAsPlacedWhateverTheFrameSays() throws Exception {
    types(true, true);
    queue(0, -1, 5120, 0);
    node(0, 8192);
    application(0, true, false, 0);
    request(0, 20, 3);
    assertEquals(3, decide(true).size());
    node(0, 8192);
    request(0, 20, 4);
    assertEquals(1, decide(false).size(), "one more is asked for, and no more than that");
    request(0, 20, 9);
    assertEquals(1, decide(false).size(), "room for one in the queue");
    fates(1, 3, 0);
    fates(2, 1, 0);
    node(0, 4096);
    request(0, 20, 5);
    limits(0, 5120, 4096);
    assertEquals(0, decide(false).size(), "the third answer has no fate");
    fates(3, 1, 9);
    assertEquals(1, decide(false).size(), "it was rejected");
  }

  @Test
  void theLimitHoldsAndNothingIsAssumedWhenOnlyObserved() throws Exception {
    types(true, true);
    node(0, 1 << 20);
    application(0, true, false);
    request(0, 20, 500);
    assertEquals(LIMIT, decide(true).size());
    assertEquals(1, answer(FrameWriter.FLAG_OBSERVE).size());
  }

  @Test
  void aGapAsksForASnapshot() throws Exception {
    types(true, true);
    assertFalse(decide(true).resend);
    sequence++;
    assertTrue(decide(false).resend);
    assertTrue(decide(false).resend, "until the snapshot comes");
    assertFalse(decide(true).resend);
  }

  @Test
  void aBrokenFrameIsRefused() {
    assertThrows(IOException.class, () -> engine.decide(new byte[3]));
    assertThrows(IOException.class, () -> engine.decide(new byte[100]));
  }

  private void types(boolean... counted) {
    for (boolean one : counted) {
      row(Section.RESOURCE_TYPES, "counted", one ? 1 : 0, "maximum", 1 << 20);
    }
  }

  private void queue(int index, int parent, long maximumMb, long usedMb) {
    row(Section.QUEUES, "queue", index, "parent", parent, "state", 1, "leaf", parent >= 0 ? 1 : 0);
    limits(index, maximumMb, usedMb);
  }

  private void limits(int index, long maximumMb, long usedMb) {
    row(Section.QUEUE_LIMITS, "queue", index, "maximum", new long[] {maximumMb, 100},
        "used", new long[] {usedMb, 0});
  }

  private void node(int index, long freeMb) {
    row(Section.NODES, "node", index, "state", 1, "free", new long[] {freeMb, 1000});
  }

  private void application(int index, boolean active, boolean awaitingAm) {
    application(index, active, awaitingAm, 0);
  }

  private void application(int index, boolean active, boolean awaitingAm, int queue) {
    row(Section.APPLICATIONS, "application", index, "id", index, "queue", queue, "start_time_ms", index,
        "state", active ? 1 : 2, "awaiting_am", awaitingAm ? 1 : 0);
  }

  private void request(int application, int priority, int count) {
    row(Section.REQUESTS, "application", application, "priority", priority, "allocation_request_id", -1,
        "count", count, "relax_locality", 1, "capability", ONE_GB);
  }

  private void fates(long answered, int count, int fate) {
    row(Section.FATES, "sequence", answered, "count", count, "fate", fate);
  }

  /** Writes a row of columns by name; the others are 0. */
  private void row(Section section, Object... named) {
    Map<String, Object> values = new HashMap<>();
    for (int i = 0; i < named.length; i += 2) {
      values.put((String) named[i], named[i + 1]);
    }
    SectionWriter row = writer.section(section);
    for (JsonNode column : SCHEMA.get(section.kind - 1).get("columns")) {
      Object value = values.get(column.get(0).asText());
      if (column.get(1).asText().equals("R*i64")) {
        row.amounts(value == null ? new long[2] : (long[]) value);
      } else {
        row.add(value == null ? 0 : ((Number) value).longValue());
      }
    }
    row.end();
  }

  private static JsonNode schema() {
    try (InputStream file = FrameWriter.class.getResourceAsStream("schema.json")) {
      return new ObjectMapper().readTree(file).get("sections");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private ProposalFrame decide(boolean snapshot) throws Exception {
    return answer(snapshot ? FrameWriter.FLAG_SNAPSHOT : 0);
  }

  private ProposalFrame answer(int flags) throws Exception {
    sequence++;
    return ProposalFrame.parse(engine.decide(writer.frames(EPOCH, sequence, 0, flags, 0, LIMIT).get(0)), LIMIT);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.ProposalFrame;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FirstFitEngineTest {
  private static final long EPOCH = 77;
  private static final int LIMIT = 100;
  private static final long[] ONE_GB = {1024, 1};

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
    writer.section(Section.NODES).add(0).add(0).add(0).add(0).add(1).amounts(new long[] {2048, 0})
        .amounts(new long[] {2048, 0}).end();
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
      writer.section(Section.RESOURCE_TYPES).add(0).add(0).flag(one).add(0).add(1 << 20).end();
    }
  }

  private void queue(int index, int parent, long maximumMb, long usedMb) {
    writer.section(Section.QUEUES).add(index).add(parent).add(0).add(1).flag(parent >= 0).add(0).add(0).add(0).end();
    limits(index, maximumMb, usedMb);
  }

  private void limits(int index, long maximumMb, long usedMb) {
    SectionWriter limits = writer.section(Section.QUEUE_LIMITS).add(index).add(0).amounts(new long[2]);
    limits.amounts(new long[] {maximumMb, 100}).amounts(new long[] {usedMb, 0});
    limits.amounts(new long[2]).amounts(new long[2]).amounts(new long[2]).end();
  }

  private void node(int index, long freeMb) {
    long[] free = {freeMb, 1000};
    writer.section(Section.NODES).add(index).add(0).add(0).add(0).add(1).amounts(free).amounts(free).end();
  }

  private void application(int index, boolean active, boolean awaitingAm) {
    application(index, active, awaitingAm, 0);
  }

  private void application(int index, boolean active, boolean awaitingAm, int queue) {
    SectionWriter row = writer.section(Section.APPLICATIONS).add(index).add(0).add(index).add(1);
    row.add(0).add(0).add(0).add(queue).add(0).add(0).add(0).add(index);
    row.add(active ? 1 : 2).flag(awaitingAm).add(0).end();
  }

  private void request(int application, int priority, int count) {
    SectionWriter row = writer.section(Section.REQUESTS).add(application).add(0).add(priority).add(-1).add(count);
    row.flag(true).flag(false).add(0).amounts(ONE_GB).end();
  }

  private void fates(long answered, int count, int fate) {
    writer.section(Section.FATES).add(answered).add(0).add(count).add(fate).end();
  }

  private ProposalFrame decide(boolean snapshot) throws Exception {
    return answer(snapshot ? FrameWriter.FLAG_SNAPSHOT : 0);
  }

  private ProposalFrame answer(int flags) throws Exception {
    sequence++;
    return ProposalFrame.parse(engine.decide(writer.frames(EPOCH, sequence, 0, flags, 0, LIMIT).get(0)), LIMIT);
  }
}

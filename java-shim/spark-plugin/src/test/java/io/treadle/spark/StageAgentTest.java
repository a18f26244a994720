// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.treadle.plans.PlanListener;
import io.treadle.spark.StageStatistics.End;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class StageAgentTest {
  private static final long LONG_MS = 3_600_000;

  private final StageTable table = new StageTable();
  private final Recorder recorder = new Recorder();

  /** A plan listener with scripted answers, which records what it received: from the start, ended, rows. */
  private static final class Recorder implements PlanListener {
    final List<String> heard = Collections.synchronizedList(new ArrayList<>());
    final Deque<Answer> answers = new ArrayDeque<>();
    IOException problem;

    @Override
    public Reply plan(byte[] description, long waitMs) {
      throw new IllegalStateException("nobody asks for plans");
    }

    @Override
    public Reply report(Subject subject, byte[] report) throws IOException {
      ByteBuffer said = ByteBuffer.wrap(report);
      heard.add(subject + " " + said.get() + " " + said.get() + " " + said.getInt());
      if (problem != null) {
        throw problem;
      }
      Answer answer = answers.poll();
      return new Reply(answer == null ? Answer.OK : answer, new byte[0]);
    }
  }

  private void stages(int count) {
    for (int id = 0; id < count; id++) {
      table.list(id, "s", 1, new int[] {id}, new int[0]);
      table.ended(id, 0, End.SUCCEEDED, false, 1, 0);
    }
  }

  private List<String> said() throws Exception {
    StageAgent agent = new StageAgent(table, application -> recorder);
    agent.begin("application_1_0001");
    agent.end(LONG_MS);
    return recorder.heard;
  }

  @Test
  void theEndIsSentWithWhatIsNew() throws Exception {
    stages(2);
    assertEquals(Collections.singletonList("STAGES 1 1 2"), said());
  }

  @Test
  void aListenerThatHasForgottenGetsAllFromTheStart() throws Exception {
    stages(1);
    recorder.answers.add(PlanListener.Answer.UNKNOWN);
    assertEquals(java.util.Arrays.asList("STAGES 1 1 1", "STAGES 1 1 1"), said());
  }

  @Test
  void manyStagesTakeSeveralReports() throws Exception {
    for (int id = 0; id < 400; id++) {
      table.list(id, String.join("", Collections.nCopies(1000, "x")), 1, new int[] {id}, new int[0]);
      table.ended(id, 0, End.SUCCEEDED, false, 1, 0);
    }
    List<String> heard = said();
    // 400 stages of 1,000 letters and more each, in reports of at most REPORT_BYTES
    int least = 400_000 / StageAgent.REPORT_BYTES + 1;
    assertTrue(heard.size() >= least && heard.size() <= least + 2, () -> heard.size() + " reports");
    int rows = 0;
    for (int at = 0; at < heard.size(); at++) {
      String flags = (at == 0 ? "1 " : "0 ") + (at == heard.size() - 1 ? "1 " : "0 ");
      assertEquals("STAGES " + flags, heard.get(at).substring(0, 11));
      rows += Integer.parseInt(heard.get(at).substring(11));
    }
    assertEquals(400, rows);
  }

  @Test
  void whatWentWrongDoesNotReachTheDriver() throws Exception {
    stages(1);
    recorder.problem = new IOException("on purpose");
    said();
    StageAgent agent = new StageAgent(table, application -> {
      throw new IllegalStateException("on purpose");
    });
    agent.begin("application_1_0001");
    agent.end(LONG_MS);
    assertEquals(1, table.news().size(), "it was not sent");
  }

  @Test
  void aDriverWithoutAKeyReportsNothing() throws Exception {
    stages(1);
    StageAgent agent = new StageAgent(table, application -> null);
    agent.begin("local-1");
    agent.end(LONG_MS);
    assertEquals(Collections.emptyList(), recorder.heard);
  }

  @Test
  void whatCannotBeCountedIsNotSent() throws Exception {
    stages(1);
    StageAgent agent = new StageAgent(table, application -> recorder);
    agent.abandon();
    agent.begin("application_1_0001");
    agent.end(LONG_MS);
    assertEquals(Collections.emptyList(), recorder.heard);
  }

  @Test
  void aDriverThatNeverStartedIsNotWaitedFor() throws Exception {
    new StageAgent(table, application -> recorder).end(LONG_MS);
    assertFalse(Thread.currentThread().isInterrupted());
    assertNull(recorder.problem);
  }
}

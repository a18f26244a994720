// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.when;

import io.treadle.plans.DagBodies;
import io.treadle.plans.PlanListener;
import io.treadle.plans.VertexOrder;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.tez.dag.app.dag.DAGState;
import org.apache.tez.dag.app.dag.TaskAttempt;
import org.apache.tez.dag.app.dag.Vertex;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class PlannedSchedulerTest {
  private static final List<String> NATURAL = Arrays.asList("0.0 12-10", "0.1 12-10", "1.0 15-13");

  private final FakeDag fake = FakeDag.diamond();
  private final ScriptedListener listener = new ScriptedListener();

  @BeforeEach
  void configure() {
    fake.configuration.set(PlanSettings.ADDRESSES, "127.0.0.1:1");
    // longer than any test: what ends the wait is what the test says
    fake.configuration.set(PlanSettings.WAIT_MS, "60000");
  }

  private PlannedScheduler scheduler() {
    return new PlannedScheduler(fake.dag, fake, listener);
  }

  private void scheduleRoots(PlannedScheduler scheduler) {
    scheduler.scheduleTaskEx(fake.schedule(0, 0));
    scheduler.scheduleTaskEx(fake.schedule(0, 1));
    scheduler.scheduleTaskEx(fake.schedule(1, 0));
  }

  @Test
  void tasksWaitForThePlanWithoutAThreadOfTezs() throws Exception {
    PlannedScheduler scheduler = scheduler();
    scheduleRoots(scheduler);
    listener.descriptions.take();
    assertEquals(Collections.emptyList(), fake.sent());
    listener.planned(1, 2, 0, 3);
    assertEquals(Arrays.asList("0.0 36-34", "0.1 36-34", "1.0 15-13"), fake.awaitSent(3));
    scheduler.scheduleTaskEx(fake.schedule(2, 0));
    assertEquals("2.0 30-28", fake.sent().get(3));
  }

  @Test
  void aPlanThatTakesTooLongIsNotWaitedFor() throws Exception {
    fake.configuration.set(PlanSettings.WAIT_MS, "50");
    PlannedScheduler scheduler = scheduler();
    scheduleRoots(scheduler);
    assertEquals(NATURAL, fake.awaitSent(3));
    listener.planned(1, 2, 0, 3);
    byte[] report = listener.reports.take();
    assertEquals(0, report[5], "natural order is sent");
    scheduler.scheduleTaskEx(fake.schedule(1, 1));
    assertEquals("1.1 15-13", fake.sent().get(3), "one order for the whole DAG");
  }

  @Test
  void aWrongAnswerMeansNaturalOrder() throws Exception {
    byte[][] bodies = {
        {}, {0, 0, 0}, {0, 0, 0, 4}, {-1, -1, -1, -1}, {0, 0, 0, 1, 0, 0, 0, 0}, {127, -1, -1, -1, 0, 0, 0, 0}
    };
    for (byte[] body : bodies) {
      FakeDag each = FakeDag.diamond();
      each.configuration.set(PlanSettings.ADDRESSES, "127.0.0.1:1");
      ScriptedListener wrong = new ScriptedListener().answering(PlanListener.Answer.OK, body);
      new PlannedScheduler(each.dag, each, wrong).scheduleTaskEx(each.schedule(0, 0));
      assertEquals(Collections.singletonList("0.0 12-10"), each.awaitSent(1));
    }
  }

  @Test
  void aChildBeforeItsParentMeansNaturalOrder() throws Exception {
    listener.planned(3, 2, 1, 0);
    scheduleRoots(scheduler());
    assertEquals(NATURAL, fake.awaitSent(3));
  }

  @Test
  void aListenerWithoutAPlanMeansNaturalOrder() throws Exception {
    for (PlanListener.Answer answer : PlanListener.Answer.values()) {
      if (answer != PlanListener.Answer.OK) {
        FakeDag each = FakeDag.diamond();
        each.configuration.set(PlanSettings.ADDRESSES, "127.0.0.1:1");
        ScriptedListener unwilling = new ScriptedListener().answering(answer, new byte[0]);
        new PlannedScheduler(each.dag, each, unwilling).scheduleTaskEx(each.schedule(0, 0));
        assertEquals(Collections.singletonList("0.0 12-10"), each.awaitSent(1));
      }
    }
  }

  @Test
  void whatEachPriorityMeansAndWhatEndedIsReported() throws Exception {
    PlannedScheduler scheduler = scheduler();
    scheduleRoots(scheduler);
    listener.planned(1, 2, 0, 3);
    fake.awaitSent(3);
    scheduler.taskCompletedEx(fake.completed(1, 0));
    ByteBuffer report = ByteBuffer.wrap(listener.reports.take());
    assertEquals(3, report.getInt(), "the DAG's number");
    assertEquals(0, report.get(), "it runs");
    assertEquals(1, report.get(), "by plan");
    assertEquals(4, report.getInt());
    int[][] table = {{0, 36, 4}, {1, 15, 2}, {2, 30, 2}, {3, 57, 1}};
    for (int[] row : table) {
      assertEquals(row[0], report.getInt());
      assertEquals(row[1], report.getInt());
      assertEquals(row[2], report.getInt());
    }
    ByteBuffer ended = report.getInt() == 1 ? report : ByteBuffer.wrap(listener.reports.take());
    if (ended != report) {
      ended.position(14);
    }
    assertEquals(1, ended.getInt(), "vertex");
    assertEquals(0, ended.getInt(), "task");
    assertEquals(0, ended.getInt(), "attempt");
    assertEquals(0, ended.get(), "succeeded");
    assertEquals(1_250, ended.getLong());
    assertEquals(250, ended.getLong());
    assertEquals(-1, ended.getLong(), "no counters, no input");
    assertEquals(-1, ended.getLong(), "no counters, no CPU time");
    assertEquals(0, ended.remaining());
  }

  @Test
  void aWidthThatChangedIsReported() throws Exception {
    Vertex middle = fake.dag.getVertices().values().stream().skip(2).findFirst().get();
    listener.planned(1, 2, 0, 3);
    scheduleRoots(scheduler());
    ByteBuffer.wrap(listener.reports.take());
    when(middle.getTotalTasks()).thenReturn(1);
    ByteBuffer report = ByteBuffer.wrap(listener.reports.take());
    assertEquals(1, report.getInt(10 + 2 * 12 + 8));
  }

  @Test
  void aListenerThatDoesNotKnowTheDagGetsItAnew() throws Exception {
    listener.planned(1, 2, 0, 3).reporting(PlanListener.Answer.UNKNOWN);
    scheduleRoots(scheduler());
    byte[] refused = listener.reports.take();
    byte[] again = listener.reports.take();
    assertEquals(2, listener.descriptions.size());
    assertTrue(Arrays.equals(refused, again));
  }

  /** What an earlier listener received is not lost, nor sent twice. */
  @Test
  void theNextListenerGetsAllTasksThatHaveSucceeded() throws Exception {
    PlannedScheduler scheduler = scheduler();
    scheduleRoots(scheduler);
    listener.planned(1, 2, 0, 3);
    fake.awaitSent(3);
    listener.reports.take();
    fake.succeeded(0, 3);
    fake.succeeded(1, 2);
    listener.reporting(PlanListener.Answer.UNKNOWN);
    scheduler.taskCompletedEx(fake.completed(1, 1));
    assertEquals("1.1 ", ended(listener.reports.take()));
    assertEquals("0.0 0.1 0.2 1.0 1.1 ", ended(listener.reports.take()));
    assertEquals(2, listener.descriptions.size());
  }

  /** The ended tasks in a report. */
  private static String ended(byte[] report) {
    ByteBuffer said = ByteBuffer.wrap(report);
    said.position(10 + 12 * said.getInt(6));
    StringBuilder ended = new StringBuilder();
    for (int left = said.getInt(); left > 0; left--) {
      ended.append(said.getInt()).append('.').append(said.getInt()).append(' ');
      said.position(said.position() + DagBodies.ENDED_BYTES - 8);
    }
    return ended.toString();
  }

  @Test
  void theLastReportSaysHowTheDagEnded() throws Exception {
    listener.planned(1, 2, 0, 3);
    scheduleRoots(scheduler());
    listener.reports.take();
    fake.end(DAGState.SUCCEEDED);
    assertEquals(1, listener.reports.take()[4]);
  }

  /** The vertices of the table of a report with their largest priorities. */
  private static String table(byte[] report) {
    ByteBuffer said = ByteBuffer.wrap(report);
    StringBuilder table = new StringBuilder();
    for (int i = 0; i < said.getInt(6); i++) {
      table.append(said.getInt(10 + 12 * i)).append('=').append(said.getInt(14 + 12 * i)).append(' ');
    }
    return table.toString().trim();
  }

  @Test
  void aNewPlanMovesTheVerticesThatWereNotAskedFor() throws Exception {
    FakeDag wide = new FakeDag();
    for (int i = 0; i < 4; i++) {
      wide.vertex("v" + i, 1, 0);
    }
    wide.configuration.set(PlanSettings.ADDRESSES, "127.0.0.1:1");
    PlannedScheduler scheduler =
        new PlannedScheduler(wide.dag, wide, listener.planned(0, 1, 2, 3).replanning(3, 2, 1, 0));
    scheduler.scheduleTaskEx(wide.schedule(1, 0));
    assertEquals("0=12 1=27 2=42 3=57", table(listener.reports.take()));
    assertEquals("0=48 1=27 2=42 3=21", table(listener.reports.take()), "what vertex 1 is asked for by stays");
    scheduler.scheduleTaskEx(wide.schedule(3, 0));
    assertEquals(Arrays.asList("1.0 27-25", "3.0 21-19"), wide.sent());
  }

  @Test
  void aNewPlanThatCannotBeFollowedChangesNothing() throws Exception {
    PlannedScheduler scheduler = scheduler();
    listener.planned(1, 2, 0, 3).replanning(3, 2, 1, 0).replanning(1);
    scheduleRoots(scheduler);
    listener.reports.take();
    scheduler.taskCompletedEx(fake.completed(1, 0));
    listener.reports.take();
    scheduler.scheduleTaskEx(fake.schedule(2, 0));
    assertEquals("2.0 30-28", fake.sent().get(3));
  }

  @Test
  void naturalOrderIsNotReplanned() throws Exception {
    listener.answering(PlanListener.Answer.NO_PLAN, new byte[0]).replanning(1, 2, 0, 3);
    PlannedScheduler scheduler = scheduler();
    scheduler.scheduleTaskEx(fake.schedule(1, 0));
    listener.reports.take();
    scheduler.taskCompletedEx(fake.completed(1, 0));
    listener.reports.take();
    scheduler.scheduleTaskEx(fake.schedule(0, 0));
    assertEquals(Arrays.asList("1.0 15-13", "0.0 12-10"), fake.sent());
  }

  private static DagAgent.Following unmoved() {
    return new DagAgent.Following() {
      @Override
      public VertexOrder decide(VertexOrder found) {
        return found;
      }

      @Override
      public VertexOrder replan(int[] vertices) {
        throw new IllegalStateException("nobody replans");
      }
    };
  }

  @Test
  void moreEndedTasksThanCanWaitAreDropped() {
    listener.planned(1, 2, 0, 3);
    DagAgent agent = new DagAgent(fake.dag, DagDescription.of(fake.dag), listener, 0, unmoved());
    TaskAttempt attempt = fake.attempt(0, 0);
    for (int i = 0; i < DagAgent.WAITING_MAX + 100; i++) {
      agent.completed(attempt);
    }
    fake.end(DAGState.KILLED);
    agent.run();
    int reported = 0;
    for (byte[] report : listener.reports) {
      ByteBuffer said = ByteBuffer.wrap(report);
      boolean last = reported + 1_000 > DagAgent.WAITING_MAX;
      assertEquals(last ? 2 : 0, said.get(4), "that it has ended, and has not succeeded, is said last");
      reported += said.getInt(10 + 12 * said.getInt(6));
    }
    assertEquals(DagAgent.WAITING_MAX, reported);
  }

  @Test
  void settingsThatCannotBeUsedAreRefused() {
    for (String addresses : new String[] {"", "host", "host:", ":1", "host:0", "host:65536", "host:x"}) {
      fake.configuration.set(PlanSettings.ADDRESSES, addresses);
      assertThrows(IllegalArgumentException.class, () -> PlanSettings.read(fake.configuration), addresses);
    }
    fake.configuration.set(PlanSettings.ADDRESSES, "rm1.example.org:8047, [::1]:8047");
    assertEquals(2, PlanSettings.read(fake.configuration).addresses().size());
    assertFalse(PlanSettings.read(fake.configuration).encrypt());
    fake.configuration.set(PlanSettings.ENCRYPT, "true");
    assertTrue(PlanSettings.read(fake.configuration).encrypt());
    fake.configuration.set(PlanSettings.ENCRYPT, "yes");
    assertThrows(IllegalArgumentException.class, () -> PlanSettings.read(fake.configuration));
    fake.configuration.set(PlanSettings.ENCRYPT, "false");
    fake.configuration.set(PlanSettings.WAIT_MS, "-1");
    assertThrows(IllegalArgumentException.class, () -> PlanSettings.read(fake.configuration));
  }
}

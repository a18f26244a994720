// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.plans.PlanListener;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class PlanAgentTest {
  private static final String JOB =
      "{\"name\": \"dag aa\", \"user\": \"ann\", \"queue\": \"default\", \"type\": \"%s\","
      + " \"at_ms\": 0, \"until_ms\": 0, \"master_mb\": 8, \"tags\": [], \"requires\": {}, \"stages\": ["
      + "{\"name\": \"v0\", \"priority\": 8, \"resources\": {\"memory-mb\": 5},"
      + " \"durations_ms\": [7, 7], \"after\": []},"
      + "{\"name\": \"v1\", \"priority\": 11, \"resources\": {\"memory-mb\": 6},"
      + " \"durations_ms\": [9], \"after\": []}]}";

  /** A listener that answers as a test has set. */
  private static final class Scripted implements PlanListener {
    private final BlockingQueue<byte[]> reports = new LinkedBlockingQueue<>();
    private final Queue<Answer> answers = new ConcurrentLinkedQueue<>();
    private final Queue<byte[]> orders = new ConcurrentLinkedQueue<>();
    private final BlockingQueue<byte[]> asked = new LinkedBlockingQueue<>();
    private final int[] plan;

    Scripted(int... plan) {
      this.plan = plan;
    }

    @Override
    public Reply plan(byte[] description, long waitMs) throws IOException {
      asked.add(description);
      if (plan.length == 0) {
        return new Reply(Answer.NO_PLAN, new byte[0]);
      }
      return new Reply(Answer.OK, body(plan));
    }

    private static byte[] body(int... order) {
      ByteBuffer body = ByteBuffer.allocate(4 + 4 * order.length).putInt(order.length);
      for (int stage : order) {
        body.putInt(stage);
      }
      return body.array();
    }

    @Override
    public Reply report(Subject subject, byte[] report) {
      Answer answer = answers.poll();
      byte[] order = orders.poll();
      reports.add(report);
      return new Reply(answer == null ? Answer.OK : answer, order == null ? new byte[0] : order);
    }

    ByteBuffer next() throws InterruptedException {
      return ByteBuffer.wrap(reports.take());
    }
  }

  private static Script.Job job(String type) throws IOException {
    return new Script.Job(new ObjectMapper().readTree(String.format(JOB, type)));
  }

  private static PlanAgent settled(Scripted listener) throws Exception {
    PlanAgent agent = new PlanAgent(job("TEZ"), listener, 1_000);
    agent.start();
    while (agent.settled() == null) {
      TimeUnit.MILLISECONDS.sleep(5);
    }
    return agent;
  }

  @Test
  void stagesHaveThePrioritiesOfThePlan() throws Exception {
    Scripted listener = new Scripted(1, 0);
    PlanAgent agent = settled(listener);
    assertTrue(agent.isPlanned());
    assertEquals(11, agent.settled().get(0).priority, "place 1 of 2 stages, id 0: 12, 11 and 10");
    assertEquals(8, agent.settled().get(1).priority);
    assertEquals(6, agent.settled().get(1).resource.getMemorySize());
    ByteBuffer first = listener.next();
    assertEquals(1, first.getInt());
    assertEquals(0, first.get(), "it runs");
    assertEquals(1, first.get(), "by a plan");
    assertEquals(2, first.getInt());
    assertEquals(0, first.getInt());
    assertEquals(12, first.getInt());
    assertEquals(2, first.getInt());
    agent.end();
  }

  @Test
  void endedTasksAreReportedOnceAndAgainToWhomDoesNotKnowTheDag() throws Exception {
    Scripted listener = new Scripted(0, 1);
    PlanAgent agent = settled(listener);
    listener.next();
    StagedTasks.Task task = new StagedTasks.Task(0, 1, 7);
    listener.answers.add(PlanListener.Answer.BUSY);
    listener.answers.add(PlanListener.Answer.UNKNOWN);
    agent.ended(task, 1_000);
    for (int stages : new int[] {0, 0, 2}) {
      ByteBuffer report = listener.next();
      report.position(6);
      assertEquals(stages, report.getInt(), "who is asked for the first time has to know the stages");
      report.position(10 + 12 * stages);
      assertEquals(1, report.getInt());
      assertEquals(0, report.getInt());
      assertEquals(1, report.getInt());
      report.position(report.position() + 5);
      assertEquals(1_000, report.getLong());
      assertEquals(7, report.getLong());
    }
    assertEquals(2, listener.asked.size());
    agent.end();
    ByteBuffer last = listener.next();
    last.position(4);
    assertEquals(1, last.get(), "it has succeeded");
    last.position(10);
    assertEquals(0, last.getInt(), "nothing is reported twice");
  }

  /** The stages of a new order, as soon as the agent has it. */
  private static List<Script.Stage> replanned(PlanAgent agent) throws InterruptedException {
    List<Script.Stage> found = agent.replanned(Collections.emptySet());
    while (found == null) {
      TimeUnit.MILLISECONDS.sleep(5);
      found = agent.replanned(Collections.emptySet());
    }
    return found;
  }

  @Test
  void aLaterOrderMovesStagesThatWereNotAskedForAndIsReported() throws Exception {
    Scripted listener = new Scripted(0, 1);
    listener.orders.add(Scripted.body(1, 0));
    PlanAgent agent = settled(listener);
    assertEquals(5, agent.settled().get(0).priority, "place 0 of 2 stages, id 0: 6, 5 and 4");
    listener.next();
    List<Script.Stage> anew = replanned(agent);
    assertEquals(11, anew.get(0).priority);
    assertEquals(8, anew.get(1).priority);
    assertEquals(anew, agent.settled());
    ByteBuffer report = listener.next();
    report.position(6);
    assertEquals(2, report.getInt(), "the listener has to know which priorities are followed now");
    assertEquals(0, report.getInt());
    assertEquals(12, report.getInt());
    agent.end();
  }

  @Test
  void aLaterOrderLeavesStagesThatWereAskedForWhereTheyAre() throws Exception {
    Scripted listener = new Scripted(0, 1);
    listener.orders.add(Scripted.body(1, 0));
    PlanAgent agent = settled(listener);
    listener.next();
    StagedTasks tasks = new StagedTasks(agent.settled());
    assertEquals(new TreeSet<>(Arrays.asList(0, 1)), tasks.asked(), "neither waits for the other");
    agent.ended(new StagedTasks.Task(0, 0, 7), 1_000);
    listener.next(); // the answer before, with the order, was taken by then
    assertNull(agent.replanned(tasks.asked()));
    assertEquals(5, agent.settled().get(0).priority);
    agent.end();
  }

  @Test
  void withoutAPlanTheJobKeepsItsOrder() throws Exception {
    for (Scripted listener : new Scripted[] {new Scripted(), new Scripted(0), new Scripted(0, 0), new Scripted(0, 2)}) {
      PlanAgent agent = settled(listener);
      assertFalse(agent.isPlanned());
      assertEquals(8, agent.settled().get(0).priority);
    }
  }

  @Test
  void onlyTezJobsAskAndOnlyWhereAListenerIs() throws Exception {
    Configuration nobody = new Configuration(false);
    Configuration somebody = new Configuration(false);
    somebody.set(PlanAgent.ADDRESSES_KEY, "127.0.0.1:8047");
    assertNull(PlanAgent.of(job("TEZ"), nobody, () -> null));
    assertNull(PlanAgent.of(job("MAPREDUCE"), somebody, () -> null));
    assertTrue(PlanAgent.of(job("TEZ"), somebody, () -> null) != null);
  }
}

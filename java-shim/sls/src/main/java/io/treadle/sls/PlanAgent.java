// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import io.treadle.plans.AttemptKey;
import io.treadle.plans.DagBodies;
import io.treadle.plans.ListenerAddresses;
import io.treadle.plans.PlanListener;
import io.treadle.plans.RemotePlanListener;
import io.treadle.plans.Texts;
import io.treadle.plans.VertexOrder;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What Treadle's plug-in does in a Tez application master, for a job of a {@link Script}: asks the plan listener for
 * the job's plan, gives stages the priorities of that, and reports which tasks have ended. A thread of its own talks to
 * the listener. An order that comes with the answer to a report moves the stages that were not asked for yet, as the
 * plug-in does it.
 */
final class PlanAgent implements Runnable {
  /** {@code host:port} of plan listeners; without it there are no plans. */
  static final String ADDRESSES_KEY = "treadle.plan.addresses";
  /** How long a job may wait for its plan, milliseconds. */
  static final String WAIT_MS_KEY = "treadle.plan.wait-ms";

  private static final Logger LOG = LoggerFactory.getLogger(PlanAgent.class);
  private static final ScheduledExecutorService CLOCK = RemotePlanListener.clock();
  private static final String TEZ = "TEZ";
  private static final int DAG = 1;
  private static final long WAIT_MS_DEFAULT = 2_000;
  /** A listener takes four requests a second of an attempt. */
  private static final long PERIOD_MS = 300;

  private final Script.Job job;
  private final PlanListener listener;
  private final long waitMs;
  private final List<Ended> ended = new ArrayList<>();
  private final ScriptedStages vertices;
  private volatile List<Script.Stage> settled;
  /** Null without a plan. */
  private volatile VertexOrder order;
  private volatile boolean over;
  /** The listener's next order; null if it is unchanged. */
  private int[] wanted;
  private int reported;
  /** The order of the priorities that the listener knows. */
  private VertexOrder told;

  /** A task, and when it ended. */
  private static final class Ended {
    private final StagedTasks.Task task;
    private final long atMs;

    Ended(StagedTasks.Task task, long atMs) {
      this.task = task;
      this.atMs = atMs;
    }
  }

  PlanAgent(Script.Job job, PlanListener listener, long waitMs) {
    this.job = job;
    this.listener = listener;
    this.waitMs = waitMs;
    this.vertices = new ScriptedStages(job.stages);
  }

  /** The agent of a job; null if it is none of Tez, or no engine can be asked. */
  static PlanAgent of(Script.Job job, Configuration conf, Callable<List<AttemptKey>> keys) {
    String addresses = conf.get(ADDRESSES_KEY);
    if (addresses == null || !TEZ.equals(job.type)) {
      return null;
    }
    PlanListener listener =
        new RemotePlanListener(ListenerAddresses.read(ADDRESSES_KEY, addresses), keys, CLOCK, false);
    return new PlanAgent(job, listener, conf.getLong(WAIT_MS_KEY, WAIT_MS_DEFAULT));
  }

  /** Begins to ask; the application master runs. */
  void start() {
    Thread thread = new Thread(this, "plan of " + job.name);
    thread.setDaemon(true);
    thread.start();
  }

  /** The job's stages with the priorities that it follows; null until that is settled. */
  List<Script.Stage> settled() {
    return settled;
  }

  /** Whether these are a plan's. */
  boolean isPlanned() {
    return order != null;
  }

  /**
   * Follows the new order that the listener has sent, if it has.
   *
   * @param asked the stages that tasks were asked for: they keep their priorities
   * @return the job's stages with the priorities that it follows now; null if they are those of before
   */
  synchronized List<Script.Stage> replanned(Set<Integer> asked) {
    if (wanted == null) {
      return null;
    }
    VertexOrder before = order;
    VertexOrder after = before;
    try {
      after = before.replanned(vertices, wanted, asked);
    } catch (IllegalArgumentException problem) {
      LOG.debug("{} keeps its order", job.name, problem);
    }
    wanted = null;
    if (after == before) {
      return null;
    }
    LOG.info("{} has a new plan: {}", job.name, after);
    settled = stages(after);
    order = after;
    return settled;
  }

  /** Takes that a task has succeeded; returns at once. */
  synchronized void ended(StagedTasks.Task task, long atMs) {
    ended.add(new Ended(task, atMs));
  }

  /** The job has succeeded; sends the remaining reports, once. */
  void end() {
    over = true;
  }

  @Override
  public void run() {
    try {
      VertexOrder found = VertexOrder.planned(vertices, ask(waitMs));
      order = found;
      settled = stages(found);
    } catch (IOException | RuntimeException problem) {
      LOG.warn("{} has no plan: {}", job.name, String.valueOf(problem));
      settled = job.stages;
      return;
    }
    try {
      boolean last = false;
      while (!last) {
        last = over;
        report(last);
        TimeUnit.MILLISECONDS.sleep(PERIOD_MS);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  private int[] ask(long timeMs) throws IOException {
    PlanListener.Reply reply = listener.plan(description(), timeMs);
    if (reply.answer() != PlanListener.Answer.OK) {
      throw new IOException("the plan listener answers " + reply.answer());
    }
    return DagBodies.order(reply.body());
  }

  /** The stages with the priorities of an order. */
  private List<Script.Stage> stages(VertexOrder of) {
    List<Script.Stage> stages = new ArrayList<>();
    for (int i = 0; i < job.stages.size(); i++) {
      stages.add(job.stages.get(i).at(of.low(i) - 1)); // the one of the three that Tez gives a first attempt
    }
    return stages;
  }

  private byte[] description() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(DAG);
    Texts.write(out, job.name);
    out.writeInt(job.stages.size());
    for (int i = 0; i < job.stages.size(); i++) {
      Script.Stage stage = job.stages.get(i);
      Map<String, Long> demand = new TreeMap<>();
      for (ResourceInformation type : stage.resource.getResources()) {
        demand.put(type.getName(), type.getValue());
      }
      Map<Integer, Boolean> parents = new TreeMap<>();
      for (int before : stage.after) {
        parents.put(before, false);
      }
      DagBodies.writeVertex(out, i, stage.name, stage.durationsMs.length, demand, parents);
    }
    return bytes.toByteArray();
  }

  private void report(boolean last) {
    try {
      List<Ended> ending;
      do {
        ending = waiting();
        VertexOrder telling = order;
        if (ending.isEmpty() && told == telling && !last) {
          return;
        }
        PlanListener.Reply reply =
            listener.report(PlanListener.Subject.DAG, body(telling, ending, last && isAll(ending)));
        if (reply.answer() == PlanListener.Answer.UNKNOWN) { // another one answers, which has to know all
          ask(waitMs);
          reported = 0;
          told = null;
          return;
        }
        if (reply.answer() != PlanListener.Answer.OK) {
          return; // the next report has it
        }
        reported += ending.size();
        told = telling;
        take(reply.body());
      } while (ending.size() == DagBodies.ENDED_MAX);
    } catch (IOException problem) {
      LOG.debug("{}: not reported now", job.name, problem);
    }
  }

  /** Keeps the order that came with an answer, if one did, until the application master follows it. */
  private synchronized void take(byte[] body) throws IOException {
    if (body.length > 0) {
      wanted = DagBodies.order(body);
    }
  }

  private synchronized List<Ended> waiting() {
    return new ArrayList<>(ended.subList(reported, Math.min(ended.size(), reported + DagBodies.ENDED_MAX)));
  }

  private synchronized boolean isAll(List<Ended> ending) {
    return reported + ending.size() == ended.size();
  }

  private byte[] body(VertexOrder telling, List<Ended> ending, boolean last) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(64 + ending.size() * DagBodies.ENDED_BYTES);
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(DAG);
    out.writeByte(last ? DagBodies.SUCCEEDED : DagBodies.RUNNING);
    out.writeByte(1);
    int stages = told == telling ? 0 : vertices.vertices();
    out.writeInt(stages);
    for (int i = 0; i < stages; i++) {
      out.writeInt(i);
      out.writeInt(telling.low(i));
      out.writeInt(job.stages.get(i).durationsMs.length);
    }
    out.writeInt(ending.size());
    for (Ended each : ending) {
      int[] id = {each.task.stage, each.task.number, 0};
      DagBodies.writeEnded(out, id, DagBodies.TASK_SUCCEEDED, each.atMs, each.task.durationMs, -1, -1);
    }
    return bytes.toByteArray();
  }
}

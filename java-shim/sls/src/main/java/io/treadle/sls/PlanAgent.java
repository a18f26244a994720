package io.treadle.sls;

import io.treadle.plans.AttemptKey;
import io.treadle.plans.DagBodies;
import io.treadle.plans.ListenerAddresses;
import io.treadle.plans.PlanListener;
import io.treadle.plans.RemotePlanListener;
import io.treadle.plans.Texts;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What Treadle's plug-in does in a Tez application master, for a job of a {@link Script}: asks the plan listener for the job's
 * plan, gives stages the priorities of that, and reports which tasks have ended. A thread of its own talks to the listener. An
 * order that the listener sends later is not followed.
 */
final class PlanAgent implements Runnable {
  /** {@code host:port} of plan listeners; without it nobody is asked. */
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
  private volatile List<Script.Stage> settled;
  private volatile int[] lows;
  private volatile boolean over;
  private int reported;
  private boolean stagesTold;

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
  }

  /** The agent of a job; null if it is none of Tez, or nobody can be asked. */
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
    return lows != null;
  }

  /** Takes that a task has succeeded; returns at once. */
  synchronized void ended(StagedTasks.Task task, long atMs) {
    ended.add(new Ended(task, atMs));
  }

  /** The job has succeeded; what was not reported is, once. */
  void end() {
    over = true;
  }

  @Override
  public void run() {
    try {
      settled = planned(ask(waitMs));
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

  /** The stages in the order of a plan, which names each of them once. */
  private List<Script.Stage> planned(int[] order) throws IOException {
    int[] found = new int[job.stages.size()];
    for (int place = 0; place < order.length; place++) {
      if (order[place] < 0 || order[place] >= found.length || found[order[place]] != 0) {
        throw new IOException("stage " + order[place] + " is not in the job, or twice in the plan");
      }
      found[order[place]] = DagBodies.low(place, found.length, order[place]);
    }
    if (order.length != found.length) {
      throw new IOException("a plan of " + order.length + " of " + found.length + " stages");
    }
    List<Script.Stage> stages = new ArrayList<>();
    for (int i = 0; i < found.length; i++) {
      stages.add(job.stages.get(i).at(found[i] - 1)); // the one of the three that Tez gives a first attempt
    }
    lows = found;
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
        if (ending.isEmpty() && stagesTold && !last) {
          return;
        }
        PlanListener.Answer answer =
            listener.report(PlanListener.Subject.DAG, body(ending, last && isAll(ending))).answer();
        if (answer == PlanListener.Answer.UNKNOWN) { // another one answers, which has to know all
          ask(waitMs);
          reported = 0;
          stagesTold = false;
          return;
        }
        if (answer != PlanListener.Answer.OK) {
          return; // the next report has it
        }
        reported += ending.size();
        stagesTold = true;
      } while (ending.size() == DagBodies.ENDED_MAX);
    } catch (IOException problem) {
      LOG.debug("{}: not reported now", job.name, problem);
    }
  }

  private synchronized List<Ended> waiting() {
    return new ArrayList<>(ended.subList(reported, Math.min(ended.size(), reported + DagBodies.ENDED_MAX)));
  }

  private synchronized boolean isAll(List<Ended> ending) {
    return reported + ending.size() == ended.size();
  }

  private byte[] body(List<Ended> ending, boolean last) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(64 + ending.size() * DagBodies.ENDED_BYTES);
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(DAG);
    out.writeByte(last ? DagBodies.SUCCEEDED : DagBodies.RUNNING);
    out.writeByte(1);
    out.writeInt(stagesTold ? 0 : lows.length);
    for (int i = 0; !stagesTold && i < lows.length; i++) {
      out.writeInt(i);
      out.writeInt(lows[i]);
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

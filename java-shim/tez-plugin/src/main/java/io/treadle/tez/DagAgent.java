// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.DagBodies;
import io.treadle.plans.PlanListener;
import io.treadle.plans.VertexOrder;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.DAGState;
import org.apache.tez.dag.app.dag.Task;
import org.apache.tez.dag.app.dag.TaskAttempt;
import org.apache.tez.dag.app.dag.Vertex;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Speaks for one DAG with the plan listener, on a thread of its own: asks for the plan, then reports which priorities
 * belong to which vertices and which tasks have ended, until the DAG has. What cannot be sent in time is dropped.
 */
final class DagAgent implements Runnable {
  /** Ended tasks that wait to be sent; more are dropped. */
  static final int WAITING_MAX = 8_192;

  private static final Logger LOG = LoggerFactory.getLogger(DagAgent.class);
  private static final long PERIOD_MS = 500;
  private static final long ASK_AGAIN_MS = 2_000;
  private static final int BACKOFF_MAX = 6;

  private final DAG dag;
  private final DagDescription description;
  private final PlanListener listener;
  private final long waitMs;
  private final Following following;
  private final List<Vertex> vertices;
  private final BlockingQueue<Completion> waiting = new ArrayBlockingQueue<>(WAITING_MAX);
  private VertexOrder order;
  private int[] sentTasks;
  private int failures;

  /** Who follows the order. */
  interface Following {
    /** Settles the order, unless it is settled; returns the one that is followed. */
    VertexOrder decide(VertexOrder found);

    /**
     * Takes a new order of all vertices for those that were not asked for yet; returns the one that is followed.
     *
     * @throws IllegalArgumentException if it cannot be followed
     */
    VertexOrder replan(int[] vertices);
  }

  /**
   * Speaks for a DAG once it is run.
   *
   * @param waitMs how long to try to get a plan, milliseconds
   * @param following is given the order that was found
   */
  DagAgent(DAG dag, DagDescription description, PlanListener listener, long waitMs, Following following) {
    this.dag = dag;
    this.description = description;
    this.listener = listener;
    this.waitMs = waitMs;
    this.following = following;
    this.vertices = DagDescription.vertices(dag);
  }

  /** Takes that a task attempt has ended; returns at once. */
  void completed(TaskAttempt attempt) {
    if (!waiting.offer(new Completion(attempt))) {
      LOG.debug("{} is not reported", attempt);
    }
  }

  @Override
  public void run() {
    VertexOrder found = null;
    try {
      found = VertexOrder.natural(description);
      found = ask();
    } catch (Throwable problem) {
      LOG.warn("{} runs in natural order: {}", dag.getID(), String.valueOf(problem));
    } finally {
      if (found != null) {
        order = following.decide(found);
      }
    }
    try {
      report();
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    } catch (Throwable problem) {
      LOG.warn("nothing more of {} is reported", dag.getID(), problem);
    }
  }

  private VertexOrder ask() throws IOException {
    PlanListener.Reply reply = listener.plan(description.encode(), waitMs);
    if (reply.answer() != PlanListener.Answer.OK) {
      throw new IOException("the plan listener answers " + reply.answer());
    }
    VertexOrder planned = VertexOrder.planned(description, DagBodies.order(reply.body()));
    LOG.info("{} has a plan: {}", dag.getID(), planned);
    return planned;
  }

  private void report() throws InterruptedException {
    LOG.info("{} follows {}", dag.getID(), order.isPlanned() ? "its plan" : "natural order");
    while (true) {
      TimeUnit.MILLISECONDS.sleep(PERIOD_MS << failures);
      boolean ended = dag.isComplete();
      int[] tasks = vertices.stream().mapToInt(Vertex::getTotalTasks).toArray();
      boolean news = ended || !waiting.isEmpty() || !Arrays.equals(tasks, sentTasks);
      if (news) {
        sendNews(tasks, ended);
      }
      if (ended) {
        return;
      }
    }
  }

  private void sendNews(int[] tasks, boolean ended) {
    do {
      List<Completion> ending = new ArrayList<>();
      waiting.drainTo(ending, DagBodies.ENDED_MAX);
      try {
        int[] changed = Arrays.equals(tasks, sentTasks) ? null : tasks;
        PlanListener.Reply reply = send(changed, ending, ended);
        if (reply.answer() == PlanListener.Answer.UNKNOWN) {
          reply = sendFromTheStart(tasks, ending, ended);
        }
        if (reply.answer() == PlanListener.Answer.OK) {
          sentTasks = replan(reply.body()) ? null : tasks;
          failures = 0;
          continue;
        }
        LOG.debug("{}: a report was answered {}", dag.getID(), reply.answer());
      } catch (IOException problem) {
        LOG.debug("{}: {} ended tasks are not reported", dag.getID(), ending.size(), problem);
      }
      sentTasks = null;
      failures = Math.min(failures + 1, BACKOFF_MAX);
    } while (failures == 0 && !waiting.isEmpty());
  }

  /**
   * Another ResourceManager answers, or another engine of it: it has to know of all tasks that have succeeded so far.
   */
  private PlanListener.Reply sendFromTheStart(int[] tasks, List<Completion> ending, boolean ended)
      throws IOException {
    listener.plan(description.encode(), ASK_AGAIN_MS);
    waiting.clear();
    for (Vertex vertex : vertices) {
      for (Task task : vertex.getTasks().values()) {
        TaskAttempt attempt = task.getSuccessfulAttempt();
        if (attempt != null) {
          completed(attempt);
        }
      }
    }
    ending.clear();
    waiting.drainTo(ending, DagBodies.ENDED_MAX);
    return send(tasks, ending, ended);
  }

  /** Takes the new order that came with an answer, if one did; returns whether another one is followed now. */
  private boolean replan(byte[] body) throws IOException {
    if (body.length == 0 || !order.isPlanned()) {
      return false;
    }
    VertexOrder before = order;
    try {
      order = following.replan(DagBodies.order(body));
    } catch (IllegalArgumentException problem) {
      LOG.debug("{} keeps its order", dag.getID(), problem);
    }
    if (order != before) {
      LOG.info("{} has a new plan: {}", dag.getID(), order);
    }
    return order != before;
  }

  private PlanListener.Reply send(int[] tasks, List<Completion> ending, boolean ended)
      throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(64 + ending.size() * DagBodies.ENDED_BYTES);
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(description.dag());
    // The end means to the listener that everything was sent.
    boolean last = ended && waiting.isEmpty();
    int state = DagBodies.RUNNING;
    if (last) {
      state = dag.getState() == DAGState.SUCCEEDED ? DagBodies.SUCCEEDED : DagBodies.ENDED;
    }
    out.writeByte(state);
    out.writeByte(order.isPlanned() ? 1 : 0);
    out.writeInt(tasks == null ? 0 : tasks.length);
    for (int i = 0; tasks != null && i < tasks.length; i++) {
      int id = vertices.get(i).getVertexId().getId();
      out.writeInt(id);
      out.writeInt(order.low(id));
      out.writeInt(tasks[i]);
    }
    out.writeInt(ending.size());
    for (Completion completion : ending) {
      completion.write(out);
    }
    return listener.report(PlanListener.Subject.DAG, bytes.toByteArray());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.AttemptKey;
import io.treadle.plans.PlanListener;
import io.treadle.plans.RemotePlanListener;
import io.treadle.plans.VertexOrder;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.DAGScheduler;
import org.apache.tez.dag.app.dag.TaskAttempt;
import org.apache.tez.dag.app.dag.Vertex;
import org.apache.tez.dag.app.dag.event.DAGEventSchedulerUpdate;
import org.apache.tez.dag.app.dag.event.TaskAttemptEventSchedule;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives a DAG's tasks the priorities of its plan. Tasks that Tez wants to schedule before the plan is there are kept,
 * for a bounded time and without holding any thread of Tez's; then all go on in the order of the plan or in natural
 * order. Which of the two it is stays so for the whole DAG, and a vertex that tasks were asked for keeps its place: a
 * priority must not mean two vertices, nor a vertex have priorities of two places.
 */
@SuppressWarnings("rawtypes")
public final class PlannedScheduler extends DAGScheduler {
  private static final ScheduledExecutorService CLOCK = RemotePlanListener.clock();

  private static final Logger LOG = LoggerFactory.getLogger(PlannedScheduler.class);

  private final DAG dag;
  private final EventHandler handler;
  private final PlanSettings settings;
  private final PlanListener listener;
  private final Set<UserGroupInformation> users = new LinkedHashSet<>();
  private final List<TaskAttempt> kept = new ArrayList<>();
  private volatile DagAgent agent;
  private VertexOrder order;
  private DagDescription description;
  /** The ids of the vertices that tasks were asked for. */
  private final Set<Integer> asked = new HashSet<>();

  /**
   * Called by {@link TreadleDagScheduler}.
   *
   * @throws IllegalArgumentException if tez-site.xml says nothing of Treadle, or what cannot be used
   */
  public PlannedScheduler(DAG dag, EventHandler handler) {
    this(dag, handler, null);
  }

  PlannedScheduler(DAG dag, EventHandler handler, PlanListener given) {
    this.dag = dag;
    this.handler = handler;
    Vertex any = dag.getVertices().values().iterator().next();
    settings = PlanSettings.read(any.getConf());
    if (given == null) {
      ApplicationAttemptId attempt = any.getAppContext().getApplicationAttemptId();
      listener = new RemotePlanListener(settings.addresses(), () -> keys(attempt), CLOCK,
          settings.encrypt());
    } else {
      listener = given;
    }
  }

  /** Throws only before it has taken the event. */
  @Override
  public synchronized void scheduleTaskEx(DAGEventSchedulerUpdate event) {
    if (agent == null) {
      begin();
    }
    if (order == null) {
      kept.add(event.getAttempt());
    } else {
      send(event.getAttempt());
    }
  }

  @Override
  public void taskCompletedEx(DAGEventSchedulerUpdate event) {
    if (agent != null) {
      agent.completed(event.getAttempt());
    }
  }

  /** Not before the first task: until then few vertices know how many tasks they have. */
  private void begin() {
    description = DagDescription.of(dag);
    VertexOrder natural = VertexOrder.natural(description);
    // Tez calls this on a thread that has the token which the RM renews, which is not so in the constructor.
    synchronized (users) {
      try {
        users.add(UserGroupInformation.getCurrentUser());
        users.add(UserGroupInformation.getLoginUser());
      } catch (IOException problem) {
        throw new IllegalStateException(problem);
      }
    }
    DagAgent created = new DagAgent(dag, description, listener, settings.waitMs(), new Following());
    CLOCK.schedule(() -> decide(natural), settings.waitMs(), TimeUnit.MILLISECONDS);
    Thread thread = new Thread(created, "treadle " + dag.getID());
    thread.setDaemon(true);
    thread.start();
    agent = created;
  }

  private List<AttemptKey> keys(ApplicationAttemptId attempt) throws IOException {
    synchronized (users) {
      return AttemptKey.of(attempt::equals, users);
    }
  }

  /**
   * Settles the order, unless it is settled, and lets the tasks go that were kept.
   *
   * @return the order that is followed
   */
  private synchronized VertexOrder decide(VertexOrder chosen) {
    if (order == null) {
      order = chosen;
      for (TaskAttempt attempt : kept) {
        try {
          send(attempt);
        } catch (RuntimeException problem) {
          // One task that is not let go must not keep the others.
          LOG.error("{} cannot be scheduled", attempt, problem);
        }
      }
      kept.clear();
    }
    return order;
  }

  private synchronized VertexOrder replan(int[] vertices) {
    order = order.replanned(description, vertices, asked);
    return order;
  }

  /** The agent's view of the scheduler. */
  private final class Following implements DagAgent.Following {
    @Override
    public VertexOrder decide(VertexOrder found) {
      return PlannedScheduler.this.decide(found);
    }

    @Override
    public VertexOrder replan(int[] vertices) {
      return PlannedScheduler.this.replan(vertices);
    }
  }

  @SuppressWarnings("unchecked")
  private void send(TaskAttempt attempt) {
    int vertex = attempt.getVertexID().getId();
    asked.add(vertex);
    handler.handle(new TaskAttemptEventSchedule(attempt.getTaskAttemptID(), order.low(vertex), order.high(vertex)));
  }
}

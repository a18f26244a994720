// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;
import static org.mockito.Mockito.withSettings;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.tez.dag.api.EdgeProperty;
import org.apache.tez.dag.api.EdgeProperty.DataMovementType;
import org.apache.tez.dag.api.oldrecords.TaskAttemptState;
import org.apache.tez.dag.app.AppContext;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.DAGState;
import org.apache.tez.dag.app.dag.Task;
import org.apache.tez.dag.app.dag.TaskAttempt;
import org.apache.tez.dag.app.dag.Vertex;
import org.apache.tez.dag.app.dag.event.DAGEventSchedulerUpdate;
import org.apache.tez.dag.app.dag.event.TaskAttemptEventSchedule;
import org.apache.tez.dag.app.dag.impl.Edge;
import org.apache.tez.dag.records.TezDAGID;
import org.apache.tez.dag.records.TezTaskAttemptID;
import org.apache.tez.dag.records.TezTaskID;
import org.apache.tez.dag.records.TezVertexID;

/** A DAG as Tez's DAGScheduler sees it, and who takes its events. */
final class FakeDag implements EventHandler<TaskAttemptEventSchedule> {
  static final ApplicationId APPLICATION = ApplicationId.newInstance(1_700_000_000_000L, 7);
  static final ApplicationAttemptId ATTEMPT = ApplicationAttemptId.newInstance(APPLICATION, 2);

  final DAG dag = mock(DAG.class);
  final Configuration configuration = new Configuration(false);
  private final TezDAGID id = TezDAGID.getInstance(APPLICATION, 3);
  private final AppContext context = mock(AppContext.class);
  private final Map<TezVertexID, Vertex> vertices = new LinkedHashMap<>();
  private final List<TaskAttemptEventSchedule> sent = new ArrayList<>();

  /** A DAG without vertices. */
  FakeDag() {
    when(context.getApplicationAttemptId()).thenReturn(ATTEMPT);
    when(dag.getID()).thenReturn(id);
    when(dag.getName()).thenReturn("daily report");
    when(dag.getVertices()).thenReturn(vertices);
    when(dag.getState()).thenReturn(DAGState.RUNNING);
    when(dag.getTotalVertices()).thenAnswer(call -> vertices.size());
  }

  /** Two roots, of which the second feeds a vertex between it and the last. */
  static FakeDag diamond() {
    FakeDag fake = new FakeDag();
    Vertex small = fake.vertex("small", 4, 0);
    Vertex large = fake.vertex("large", 2, 0);
    Vertex middle = fake.vertex("middle", 2, 1);
    Vertex last = fake.vertex("last", 1, 2);
    fake.edge(large, middle, DataMovementType.ONE_TO_ONE);
    fake.edge(middle, last, DataMovementType.SCATTER_GATHER);
    fake.edge(small, last, DataMovementType.BROADCAST);
    return fake;
  }

  /** Adds a vertex. */
  Vertex vertex(String name, int tasks, int depth) {
    Vertex vertex = mock(Vertex.class);
    TezVertexID vertexId = TezVertexID.getInstance(id, vertices.size());
    when(vertex.getVertexId()).thenReturn(vertexId);
    when(vertex.getName()).thenReturn(name);
    when(vertex.getTotalTasks()).thenReturn(tasks);
    when(vertex.getDistanceFromRoot()).thenReturn(depth);
    when(vertex.getTaskResource()).thenReturn(Resource.newInstance(1024L * (1 + vertices.size()), 1));
    when(vertex.getInputVertices()).thenReturn(new LinkedHashMap<>());
    when(vertex.getConf()).thenReturn(configuration);
    when(vertex.getAppContext()).thenReturn(context);
    vertices.put(vertexId, vertex);
    when(dag.getVertex(vertexId)).thenReturn(vertex);
    return vertex;
  }

  void edge(Vertex from, Vertex to, DataMovementType kind) {
    Edge edge = mock(Edge.class);
    EdgeProperty property = mock(EdgeProperty.class);
    when(property.getDataMovementType()).thenReturn(kind);
    when(edge.getEdgeProperty()).thenReturn(property);
    to.getInputVertices().put(from, edge);
  }

  /** The DAG has ended. */
  void end(DAGState state) {
    when(dag.getState()).thenReturn(state);
    when(dag.isComplete()).thenReturn(true);
  }

  /** Says that the first so many tasks of a vertex have succeeded. */
  void succeeded(int vertex, int tasks) {
    Map<TezTaskID, Task> found = new LinkedHashMap<>();
    for (int i = 0; i < tasks; i++) {
      TaskAttempt attempt = attempt(vertex, i);
      Task task = mock(Task.class);
      when(task.getSuccessfulAttempt()).thenReturn(attempt);
      found.put(attempt.getTaskAttemptID().getTaskID(), task);
    }
    TezTaskID running = TezTaskID.getInstance(TezVertexID.getInstance(id, vertex), tasks);
    found.put(running, mock(Task.class));
    when(vertices.get(TezVertexID.getInstance(id, vertex)).getTasks()).thenReturn(found);
  }

  /** An attempt of a task. */
  TaskAttempt attempt(int vertex, int task) {
    TezVertexID vertexId = TezVertexID.getInstance(id, vertex);
    TezTaskAttemptID attemptId = TezTaskAttemptID.getInstance(TezTaskID.getInstance(vertexId, task), 0);
    TaskAttempt attempt = mock(TaskAttempt.class, withSettings().stubOnly());
    when(attempt.getTaskAttemptID()).thenReturn(attemptId);
    when(attempt.getVertexID()).thenReturn(vertexId);
    when(attempt.getDAGID()).thenReturn(id);
    when(attempt.getState()).thenReturn(TaskAttemptState.SUCCEEDED);
    when(attempt.getLaunchTime()).thenReturn(1_000L);
    when(attempt.getFinishTime()).thenReturn(1_250L);
    return attempt;
  }

  /** What Tez says when a task may be scheduled. */
  DAGEventSchedulerUpdate schedule(int vertex, int task) {
    return new DAGEventSchedulerUpdate(DAGEventSchedulerUpdate.UpdateType.TA_SCHEDULE, attempt(vertex, task));
  }

  /** What Tez says when a task has ended. */
  DAGEventSchedulerUpdate completed(int vertex, int task) {
    return new DAGEventSchedulerUpdate(DAGEventSchedulerUpdate.UpdateType.TA_COMPLETED, attempt(vertex, task));
  }

  @Override
  public synchronized void handle(TaskAttemptEventSchedule event) {
    sent.add(event);
    notifyAll();
  }

  /** What was let go so far, as {@code vertex.task low-high}. */
  synchronized List<String> sent() {
    List<String> texts = new ArrayList<>();
    for (TaskAttemptEventSchedule event : sent) {
      TezTaskID task = event.getTaskAttemptID().getTaskID();
      texts.add(task.getVertexID().getId() + "." + task.getId() + " " + event.getPriorityLowLimit() + "-"
          + event.getPriorityHighLimit());
    }
    return texts;
  }

  /** Waits until so many tasks were let go. */
  synchronized List<String> awaitSent(int count) throws InterruptedException {
    while (sent.size() < count) {
      wait();
    }
    return sent();
  }
}

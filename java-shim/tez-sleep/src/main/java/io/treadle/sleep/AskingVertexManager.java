package io.treadle.sleep;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.tez.dag.api.InputDescriptor;
import org.apache.tez.dag.api.UserPayload;
import org.apache.tez.dag.api.VertexManagerPlugin;
import org.apache.tez.dag.api.VertexManagerPluginContext;
import org.apache.tez.dag.api.VertexManagerPluginContext.ScheduleTaskRequest;
import org.apache.tez.runtime.api.Event;
import org.apache.tez.runtime.api.TaskAttemptIdentifier;
import org.apache.tez.runtime.api.events.VertexManagerEvent;

/**
 * Lets the tasks of a vertex go once all tasks of all its parents have ended, and asks for further resource types.
 *
 * <p>A Tez DAG carries memory and virtual cores from client to application master and nothing else. There, the ask of
 * a vertex is one object that all its tasks share and that its manager is shown, so other types are added to it here,
 * before any task exists. The payload is text: NAME=AMOUNT, separated by commas, or nothing.
 */
public final class AskingVertexManager extends VertexManagerPlugin {
  private final Map<String, Set<Integer>> ended = new HashMap<>();
  private int waiting;
  private boolean started;

  /** Called by Tez. */
  public AskingVertexManager(VertexManagerPluginContext context) {
    super(context);
  }

  @Override
  public void initialize() {
    UserPayload payload = getContext().getUserPayload();
    if (payload == null || !payload.hasPayload()) {
      return;
    }
    Resource asked = getContext().getVertexTaskResource();
    for (String each : StandardCharsets.UTF_8.decode(payload.getPayload()).toString().split(",")) {
      String[] parts = each.split("=", 2);
      asked.setResourceValue(parts[0], Long.parseLong(parts[1]));
    }
  }

  @Override
  public void onVertexStarted(List<TaskAttemptIdentifier> completions) {
    for (String parent : getContext().getInputVertexEdgeProperties().keySet()) {
      waiting += getContext().getVertexNumTasks(parent);
    }
    started = true;
    completions.forEach(this::take);
    goIfReady();
  }

  @Override
  public void onSourceTaskCompleted(TaskAttemptIdentifier attempt) {
    take(attempt);
    goIfReady();
  }

  /** A task that is run again, its node lost, counts once. */
  private void take(TaskAttemptIdentifier attempt) {
    String vertex = attempt.getTaskIdentifier().getVertexIdentifier().getName();
    if (ended.computeIfAbsent(vertex, name -> new TreeSet<>()).add(attempt.getTaskIdentifier().getIdentifier())) {
      waiting--;
    }
  }

  private void goIfReady() {
    if (!started || waiting > 0) {
      return;
    }
    started = false;
    List<ScheduleTaskRequest> tasks = new ArrayList<>();
    for (int task = 0; task < getContext().getVertexNumTasks(getContext().getVertexName()); task++) {
      tasks.add(ScheduleTaskRequest.create(task, null));
    }
    getContext().scheduleTasks(tasks);
  }

  @Override
  public void onVertexManagerEventReceived(VertexManagerEvent event) {
    // No output sends any.
  }

  @Override
  public void onRootVertexInitialized(String input, InputDescriptor descriptor, List<Event> events) {
    // No vertex reads anything.
  }
}

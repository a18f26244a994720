package io.treadle.sleep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.tez.dag.api.EdgeProperty;
import org.apache.tez.dag.api.UserPayload;
import org.apache.tez.dag.api.VertexManagerPluginContext;
import org.apache.tez.runtime.api.TaskAttemptIdentifier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.mockito.Answers;
import org.mockito.ArgumentCaptor;

class AskingVertexManagerTest {
  private final VertexManagerPluginContext context = mock(VertexManagerPluginContext.class);
  private final AskingVertexManager manager = new AskingVertexManager(context);

  @BeforeEach
  void aVertexOfThreeTasksBehindTwo() {
    when(context.getVertexName()).thenReturn("child");
    when(context.getVertexNumTasks("child")).thenReturn(3);
    when(context.getVertexNumTasks("parent")).thenReturn(2);
    when(context.getInputVertexEdgeProperties())
        .thenReturn(Collections.singletonMap("parent", mock(EdgeProperty.class)));
  }

  private static TaskAttemptIdentifier attempt(int task) {
    TaskAttemptIdentifier attempt = mock(TaskAttemptIdentifier.class, Answers.RETURNS_DEEP_STUBS);
    when(attempt.getTaskIdentifier().getVertexIdentifier().getName()).thenReturn("parent");
    when(attempt.getTaskIdentifier().getIdentifier()).thenReturn(task);
    return attempt;
  }

  @Test
  void tasksGoOnceWhenAllTasksOfAllParentsHaveEnded() {
    manager.onVertexStarted(Collections.singletonList(attempt(0)));
    manager.onSourceTaskCompleted(attempt(0));
    verify(context, never()).scheduleTasks(any());
    manager.onSourceTaskCompleted(attempt(1));
    manager.onSourceTaskCompleted(attempt(1));
    @SuppressWarnings({"unchecked", "rawtypes"})
    ArgumentCaptor<List<VertexManagerPluginContext.ScheduleTaskRequest>> tasks =
        (ArgumentCaptor) ArgumentCaptor.forClass(List.class);
    verify(context, times(1)).scheduleTasks(tasks.capture());
    assertEquals(3, tasks.getValue().size());
  }

  @Test
  void aRootGoesAtOnce() {
    when(context.getInputVertexEdgeProperties()).thenReturn(Collections.emptyMap());
    manager.onVertexStarted(Collections.emptyList());
    verify(context, times(1)).scheduleTasks(any());
  }

  @Test
  void theAskOfTheVertexIsChanged() {
    Resource asked = mock(Resource.class);
    when(context.getVertexTaskResource()).thenReturn(asked);
    byte[] text = "network=7,disk=2".getBytes(StandardCharsets.UTF_8);
    when(context.getUserPayload()).thenReturn(UserPayload.create(ByteBuffer.wrap(text)));
    manager.initialize();
    verify(asked).setResourceValue("network", 7L);
    verify(asked).setResourceValue("disk", 2L);
  }

  @Test
  void withoutAPayloadTheAskStays() {
    manager.initialize();
    verify(context, never()).getVertexTaskResource();
  }
}

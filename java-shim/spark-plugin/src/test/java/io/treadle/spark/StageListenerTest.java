// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.Mockito.RETURNS_DEEP_STUBS;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import java.util.Collections;
import java.util.List;
import org.apache.spark.Success$;
import org.apache.spark.TaskEndReason;
import org.apache.spark.TaskKilled;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

class StageListenerTest {
  private final StageTable heard = new StageTable();
  private final StageTable expected = new StageTable();
  private final StageListener listener = new StageListener(heard, new StageAgent(heard, application -> null));
  private final StageInfo info = mock(StageInfo.class);

  private static <T> Seq<T> seq(List<T> items) {
    return CollectionConverters.asScala(items).toList();
  }

  @BeforeEach
  void stage() {
    RDDInfo rdd = mock(RDDInfo.class);
    when(rdd.id()).thenReturn(6);
    when(info.stageId()).thenReturn(3);
    when(info.name()).thenReturn("count at job.py:4");
    when(info.numTasks()).thenReturn(2);
    when(info.rddInfos()).thenReturn(seq(Collections.singletonList(rdd)));
    when(info.parentIds()).thenReturn(seq(Collections.singletonList((Object) 1)));
    expected.list(3, "count at job.py:4", 2, new int[] {6}, new int[] {1});
  }

  private static SparkListenerTaskEnd end(int task, TaskEndReason reason, boolean copy, TaskMetrics metrics) {
    TaskInfo facts = mock(TaskInfo.class);
    when(facts.index()).thenReturn(task);
    when(facts.launchTime()).thenReturn(1_000L);
    when(facts.finishTime()).thenReturn(1_700L);
    when(facts.speculative()).thenReturn(copy);
    SparkListenerTaskEnd event = mock(SparkListenerTaskEnd.class);
    when(event.stageId()).thenReturn(3);
    when(event.taskInfo()).thenReturn(facts);
    when(event.reason()).thenReturn(reason);
    when(event.taskMetrics()).thenReturn(metrics);
    return event;
  }

  private static SparkListenerJobStart job(StageInfo stage) {
    SparkListenerJobStart event = mock(SparkListenerJobStart.class);
    when(event.stageInfos()).thenReturn(seq(Collections.singletonList(stage)));
    return event;
  }

  @Test
  void whatIsHeardIsCounted() throws Exception {
    TaskMetrics metrics = mock(TaskMetrics.class, RETURNS_DEEP_STUBS);
    when(metrics.inputMetrics().bytesRead()).thenReturn(5L);
    when(metrics.shuffleReadMetrics().remoteBytesRead()).thenReturn(70L);
    when(metrics.shuffleReadMetrics().localBytesRead()).thenReturn(900L);
    listener.onJobStart(job(info));
    SparkListenerStageSubmitted submitted = mock(SparkListenerStageSubmitted.class);
    when(submitted.stageInfo()).thenReturn(info);
    listener.onStageSubmitted(submitted);
    listener.onTaskEnd(end(0, Success$.MODULE$, false, metrics));
    listener.onTaskEnd(end(1, mock(TaskEndReason.class), false, null));
    listener.onTaskEnd(end(1, mock(TaskKilled.class), true, null));
    expected.ended(3, 0, StageStatistics.End.SUCCEEDED, false, 700, 975);
    expected.ended(3, 1, StageStatistics.End.FAILED, false, 700, 0);
    expected.ended(3, 1, StageStatistics.End.KILLED, true, 700, 0);
    org.junit.jupiter.api.Assertions.assertArrayEquals(
        expected.news().get(0).bytes(), heard.news().get(0).bytes());
  }

  @Test
  void aStageThatRunsIsSentBeforeItsFirstTaskEnds() throws Exception {
    SparkListenerStageSubmitted submitted = mock(SparkListenerStageSubmitted.class);
    when(submitted.stageInfo()).thenReturn(info);
    listener.onStageSubmitted(submitted);
    assertEquals(1, heard.news().size());
  }

  @Test
  void whatCannotBeReadEndsTheListeningAndNothingElse() throws Exception {
    StageInfo broken = mock(StageInfo.class);
    when(broken.rddInfos()).thenThrow(new NoSuchMethodError("another Spark"));
    listener.onJobStart(job(broken));
    listener.onJobStart(job(info));
    listener.onTaskEnd(end(0, Success$.MODULE$, false, null));
    assertEquals(0, heard.news().size());
  }
}

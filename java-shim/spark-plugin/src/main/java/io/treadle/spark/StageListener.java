// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import org.apache.spark.Success$;
import org.apache.spark.TaskKilled;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.storage.RDDInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;

/**
 * Hears a driver's events, on Spark's thread for them, and counts them at once. Nothing that is thrown here reaches
 * Spark: after the first time nothing is heard any more.
 */
final class StageListener extends SparkListener {
  private static final Logger LOG = LoggerFactory.getLogger(StageListener.class);

  private final StageTable stages;
  private final StageAgent agent;
  private boolean broken;

  StageListener(StageTable stages, StageAgent agent) {
    this.stages = stages;
    this.agent = agent;
  }

  @Override
  public void onApplicationStart(SparkListenerApplicationStart event) {
    heard(() -> agent.begin(event.appId().isDefined() ? event.appId().get() : ""));
  }

  @Override
  public void onJobStart(SparkListenerJobStart event) {
    heard(() -> {
      Iterator<StageInfo> infos = event.stageInfos().iterator();
      while (infos.hasNext()) {
        list(infos.next());
      }
    });
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    heard(() -> {
      StageStatistics stage = list(event.stageInfo());
      if (stage != null) {
        stages.ran(stage);
      }
    });
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    heard(() -> {
      TaskInfo task = event.taskInfo();
      long tookMs = task.finishTime() - task.launchTime();
      boolean succeeded = event.reason() == Success$.MODULE$;
      boolean killed = event.reason() instanceof TaskKilled;
      StageStatistics.End unsuccessful = killed ? StageStatistics.End.KILLED : StageStatistics.End.FAILED;
      StageStatistics.End end = succeeded ? StageStatistics.End.SUCCEEDED : unsuccessful;
      stages.ended(event.stageId(), task.index(), end, task.speculative(), tookMs, inputBytes(event.taskMetrics()));
    });
  }

  private StageStatistics list(StageInfo info) {
    int[] rdds = new int[info.rddInfos().size()];
    Iterator<RDDInfo> each = info.rddInfos().iterator();
    for (int i = 0; each.hasNext(); i++) {
      rdds[i] = each.next().id();
    }
    int[] parents = new int[info.parentIds().size()];
    Iterator<Object> ids = info.parentIds().iterator();
    for (int i = 0; ids.hasNext(); i++) {
      parents[i] = ((Number) ids.next()).intValue();
    }
    return stages.list(info.stageId(), info.name(), info.numTasks(), rdds, parents);
  }

  /** What a task has read, from storage and from the tasks before it; 0 if it did not say. */
  private static long inputBytes(TaskMetrics metrics) {
    return metrics == null ? 0 : metrics.inputMetrics().bytesRead() + metrics.shuffleReadMetrics().remoteBytesRead()
        + metrics.shuffleReadMetrics().localBytesRead();
  }

  private void heard(Runnable event) {
    if (broken) {
      return;
    }
    try {
      event.run();
    } catch (Throwable problem) {
      broken = true;
      agent.abandon();
      LOG.warn("stages are not reported to Treadle any more", problem);
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ScriptTest {
  /** As tests/lab/test_testbed.py writes it. */
  private static final String WRITTEN = "{\"attributes\": {\"127.1.0.0\": {\"zone\": \"special\"}}, \"jobs\": ["
      + "{\"name\": \"a\", \"user\": \"ann\", \"queue\": \"default\", \"type\": \"MAPREDUCE\", \"at_ms\": 5,"
      + " \"until_ms\": 0, \"master_mb\": 256, \"tags\": [\"treadle:require=zone=special\"],"
      + " \"requires\": {\"zone\": \"special\"},"
      + " \"stages\": [{\"name\": \"\", \"priority\": 20, \"resources\": {\"memory-mb\": 1024, \"vcores\": 1},"
      + " \"durations_ms\": [10, 20], \"after\": []},"
      + " {\"name\": \"\", \"priority\": 10, \"resources\": {\"memory-mb\": 1024, \"vcores\": 1},"
      + " \"durations_ms\": [30],"
      + " \"after\": [0]}]}]}";
  private static final ApplicationAttemptId ATTEMPT =
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1, 1), 1);

  @TempDir
  private Path folder;

  private Script script() throws Exception {
    File file = folder.resolve("script.json").toFile();
    Files.write(file.toPath(), WRITTEN.getBytes(StandardCharsets.UTF_8));
    return Script.read(file);
  }

  private static ContainerId container(long number) {
    return ContainerId.newContainerId(ATTEMPT, number);
  }

  @Test
  void aJobIsAsItWasWritten() throws Exception {
    Script script = script();
    Script.Job job = script.next();
    assertEquals("MAPREDUCE", job.type);
    assertEquals(5, job.atMs);
    assertEquals(0, job.untilMs);
    assertEquals(256, job.masterMb);
    assertTrue(job.tags.contains("treadle:require=zone=special"));
    assertEquals(1024, job.stages.get(0).resource.getMemorySize());
    assertTrue(script.has("127.1.0.0", job.requires));
    assertFalse(script.has("127.1.0.1", job.requires));
    assertTrue(script.has("127.1.0.1", Collections.emptyMap()));
    assertThrows(IllegalStateException.class, script::next);
  }

  @Test
  void aStageAsksWhenThoseBeforeItHaveEnded() throws Exception {
    StagedTasks tasks = new StagedTasks(script().next().stages);
    List<StagedTasks.Ask> asks = tasks.asks();
    assertEquals(1, asks.size());
    assertEquals(20, asks.get(0).priority);
    assertEquals(2, asks.get(0).count);
    assertEquals(0, tasks.asks().size(), "nothing has changed");
    assertEquals(10, tasks.start(container(2), 20));
    assertEquals(20, tasks.start(container(3), 20));
    assertEquals(-1, tasks.start(container(4), 20), "nobody waits for a third");
    assertEquals(-1, tasks.start(container(4), 10), "reduces have not asked");
    tasks.ended(container(2), true);
    assertEquals(0, tasks.asks().size());
    tasks.ended(container(3), true);
    assertEquals(10, tasks.asks().get(0).priority);
    assertEquals(30, tasks.start(container(5), 10));
    assertFalse(tasks.isDone());
    tasks.ended(container(5), true);
    tasks.ended(container(5), true);
    assertTrue(tasks.isDone());
  }

  @Test
  void aTaskThatFailedIsAskedForAgain() throws Exception {
    StagedTasks tasks = new StagedTasks(script().next().stages);
    tasks.asks();
    tasks.start(container(2), 20);
    tasks.ended(container(2), false);
    tasks.ended(container(9), false);
    assertEquals(2, tasks.asks().get(0).count, "it and the one that has not started");
  }
}

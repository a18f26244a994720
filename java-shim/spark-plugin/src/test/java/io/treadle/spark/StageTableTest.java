// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.treadle.spark.StageStatistics.End;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import org.junit.jupiter.api.Test;

class StageTableTest {
  private static final Path GOLDEN = Paths.get("../../tests/golden/stage-report.bin");

  private final StageTable table = new StageTable();

  private StageStatistics list(int id, int tasks, int rdd, int... parents) {
    return table.list(id, "map at job.py:" + rdd, tasks, new int[] {rdd, 0}, parents);
  }

  /** The engine reads the same file. */
  @Test
  void theGoldenReport() throws Exception {
    list(0, 3, 1);
    list(1, 1, 2, 0);
    // adaptive execution: the same stage in a later job, with another id, skipped
    list(2, 3, 1);
    list(3, 1, 3, 2, 1);
    table.ended(0, 0, End.SUCCEEDED, false, 1_000, 10);
    table.ended(0, 1, End.FAILED, false, 50, 0);
    table.ended(0, 1, End.SUCCEEDED, false, 1_500, 20);
    table.ended(0, 2, End.SUCCEEDED, true, 400, 5);
    table.ended(0, 2, End.KILLED, false, 9_000, 0);
    table.ended(0, 1, End.SUCCEEDED, false, 7, 7);
    table.ended(3, 0, End.SUCCEEDED, false, 4_000_000_000L, 1L << 40);
    assertArrayEquals(Files.readAllBytes(GOLDEN), StageAgent.report(table.news(), true, true));
  }

  @Test
  void stagesOfTheSameRddsAreOne() {
    StageStatistics first = list(0, 4, 7);
    assertSame(first, list(9, 4, 7));
    assertSame(first, list(9, 4, 8), "an id says which it is");
    assertSame(first, list(10, 4, 8), "by what was listed under that id");
    assertNotSame(first, list(11, 4, 9));
    assertNotSame(table.list(12, "", 1, new int[0], new int[0]), table.list(13, "", 1, new int[0], new int[0]));
  }

  @Test
  void onlyWhatHasChangedIsSent() throws Exception {
    list(0, 2, 1);
    assertEquals(0, table.news().size(), "it has not run");
    table.ended(0, 0, End.SUCCEEDED, false, 1, 0);
    List<StageTable.Row> rows = table.news();
    table.ended(0, 1, End.SUCCEEDED, false, 1, 0);
    table.sent(rows);
    assertEquals(1, table.news().size(), "a task ended meanwhile");
    table.sent(table.news());
    assertEquals(0, table.news().size());
    table.forgotten();
    assertEquals(1, table.news().size());
  }

  @Test
  void aStageThatGrowsCountsItsNewTasks() throws Exception {
    StageStatistics stage = list(0, 1, 1);
    table.ended(0, 0, End.SUCCEEDED, false, 1, 3);
    table.ended(0, 0, End.SUCCEEDED, false, 1, 3);
    byte[] before = table.news().get(0).bytes();
    list(0, 2, 1);
    table.ended(0, 1, End.SUCCEEDED, false, 1, 3);
    table.ended(0, -1, End.SUCCEEDED, false, 1, 3);
    assertNotNull(stage);
    assertEquals(before.length, table.news().get(0).bytes().length, "one bucket of durations");
    assertEquals(6, java.nio.ByteBuffer.wrap(table.news().get(0).bytes()).getLong(8 + 2 + 15 + 4 + 4), "bytes read");
  }

  @Test
  void nothingGrowsWithoutBound() {
    for (int id = 0; id < StageTable.STAGES_MAX; id++) {
      assertNotNull(list(id, 1, id + 1));
    }
    assertNull(list(1 << 20, 1, 1 << 20));
    table.ended(1 << 20, 0, End.SUCCEEDED, false, 1, 0);
    assertEquals(1, table.left());
    assertNotNull(list(1, 1, 2));
  }

  @Test
  void rddsAreBounded() {
    int[] many = new int[StageTable.RDDS_MAX];
    assertNotNull(table.list(0, "", 1, many, new int[0]));
    assertNull(list(1, 1, 1));
  }
}

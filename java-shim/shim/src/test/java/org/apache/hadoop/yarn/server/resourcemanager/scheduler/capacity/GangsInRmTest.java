// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A real ResourceManager in which an engine commits transactions of several containers, in batches of two, and single
 * ones, while all AMs change their minds. The system property {@code treadle.gangs} says how many gangs are to be had.
 */
@Timeout(3600)
class GangsInRmTest {
  private static final int GANGS = Integer.getInteger("treadle.gangs", 200);
  private static final int GANG_AMS = 4;
  private static final int GANG = 5;
  private static final int NODES = 4;
  private static final int PAUSE_NANOS = 3_000_000;

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private final AtomicInteger had = new AtomicInteger();
  private final AtomicInteger withdrawn = new AtomicInteger();
  private final AtomicBoolean over = new AtomicBoolean();
  private final ConcurrentLinkedQueue<String> mistakes = new ConcurrentLinkedQueue<>();
  private MockRM rm;

  @AfterEach
  void stop() {
    over.set(true);
    TestRms.stop(rm);
  }

  private void start(int nodeMb) throws Exception {
    conf.set(ShimConfig.BATCH_SIZE, "2");
    conf.set(ShimConfig.PROPOSALS_MAX, "64");
    conf.set(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, "0.9");
    rm = TestRms.start(conf, frame -> propose(frame, GANG));
    for (int i = 0; i < NODES; i++) {
      rm.registerNode("h" + i + ":1234", nodeMb);
    }
    TestRms.await(rm, "LeaseHeld", 1);
  }

  /** AMs; as many containers at once of what the first applications ask for, and single ones for the last. */
  private static byte[] propose(Frame frame, int gang) {
    List<int[]> rows = new ArrayList<>();
    for (int app = 0; app < GANG_AMS && frame.limit() > 0 && !frame.observe(); app++) {
      rows.add(new int[] {app, 0, app % NODES, 2 * app});
      for (int i = 0; i < gang; i++) {
        rows.add(new int[] {app, 1, (int) ((app + i + frame.sequence()) % NODES), 2 * app + 1});
      }
    }
    if (!rows.isEmpty()) {
      rows.add(new int[] {GANG_AMS, 0, 0, 2 * GANG_AMS});
      rows.add(new int[] {GANG_AMS, 1, (int) (frame.sequence() % NODES), 2 * GANG_AMS + 1});
    }
    return ScriptedEngine.inTransactions(frame, rows.toArray(new int[0][]));
  }

  private List<ContainerId> ask(MockAM am, int count, List<ContainerId> back) throws Exception {
    return am.allocate("*", 1024, count, back).getAllocatedContainers().stream().map(Container::getId)
        .collect(Collectors.toList());
  }

  /** Asks for as many as make a gang, and sometimes for fewer after all, until enough gangs were had by all AMs. */
  private void live(MockAM am, int size, Random random) throws Exception {
    List<ContainerId> mine = Collections.emptyList();
    while (!over.get() && had.get() < GANGS) {
      boolean withdraws = random.nextInt(3) == 0;
      int wanted = withdraws ? random.nextInt(size) : size;
      List<ContainerId> got = ask(am, wanted, mine);
      withdrawn.addAndGet(withdraws ? 1 : 0);
      if (!got.isEmpty() && got.size() != size) {
        mistakes.add(got.size() + " of " + size + " after " + wanted + " were asked for");
      }
      had.addAndGet(size > 1 && !got.isEmpty() ? 1 : 0);
      mine = got;
      // the link's threads need the processors too
      LockSupport.parkNanos(random.nextInt(PAUSE_NANOS));
    }
    // what comes after the last answer is asked for by nobody
    ask(am, 0, mine);
  }

  @Test
  void noGangIsCommittedInPart() throws Exception {
    start(6 * 1024);
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < GANG_AMS + 1; i++) {
      MockAM am = TestRms.launchByEngine(rm, 1024);
      int size = i < GANG_AMS ? GANG : 1;
      Random random = new Random(i);
      threads.add(new Thread(() -> {
        try {
          live(am, size, random);
        } catch (Throwable t) {
          mistakes.add(t.toString());
          over.set(true);
        }
      }, "am-" + i));
    }
    for (Thread thread : threads) {
      thread.setDaemon(true);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals("[]", mistakes.toString());
    assertTrue(had.get() >= GANGS, had + " gangs");
    assertTrue(withdrawn.get() > 0, "nothing was withdrawn");
    assertTrue(TestRms.number(rm, "RejectedTransaction") > 0, "no gang was refused");
    assertEquals(0, TestRms.number(rm, "TransactionsTakenBack"));
    assertEquals(0, TestRms.number(rm, "RejectedInternalError"));
    ScriptedEngine.script(Frame::answer);
    Await.until("usage adds up", () -> new Accounting(TestRms.scheduler(rm)).mistakes().isEmpty());
  }

  @Test
  void moreThanMayBeCommittedTogetherIsRefusedAsAWhole() throws Exception {
    start(1024 * 1024);
    MockAM am = TestRms.launchByEngine(rm, 1024);
    AtomicInteger size = new AtomicInteger(513);
    ScriptedEngine.script(frame -> {
      int[][] rows = new int[frame.limit() > 0 ? size.get() : 0][];
      for (int i = 0; i < rows.length; i++) {
        rows[i] = new int[] {0, 1, i % NODES, 7};
      }
      return ScriptedEngine.inTransactions(frame, rows);
    });
    ask(am, 600, Collections.emptyList());
    Await.until("it is refused", () -> TestRms.number(rm, "RejectedTransaction") >= 513);
    assertEquals(1,
        TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size());
    size.set(512);
    Await.until("512 are committed", () ->
        TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId()).getLiveContainers().size() == 513);
  }
}

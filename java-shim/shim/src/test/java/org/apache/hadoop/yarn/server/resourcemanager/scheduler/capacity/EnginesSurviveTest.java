package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.NamedEngine;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import io.treadle.shim.metrics.ShimMetrics;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Three engines, two of which fail in turns in all ways that an engine has, while applications come and go: no limit is
 * broken at any commit, and in the end everybody has what it asks for. The system property {@code treadle.commits} says
 * how many commits it goes on for.
 */
@Timeout(3600)
class EnginesSurviveTest {
  private static final int COMMITS = Integer.getInteger("treadle.commits", 400);
  private static final int COMMITS_A_FAULT = 50;
  private static final int NODES = 3;
  private static final int NODE_MB = 8 * 1024;
  private static final String[] TYPES = {"SPARK", "MAPREDUCE", "TEZ"};
  private static final String[] FAILING = {"fast", "slow"};
  private static final String CLAIM = "\"claim\": 0.25";
  private static final String ROSTER = "[{\"name\": \"fast\", \"entry\": \"fast\", \"select\": {\"types\": [\"SPARK\"]},"
      + " \"fallback\": \"slow\", \"precedence\": 2},"
      + "{\"name\": \"claimed\", \"entry\": \"claimed\", \"select\": {\"types\": [\"TEZ\"]}, " + CLAIM + "},"
      + "{\"name\": \"slow\", \"entry\": \"slow\", \"fallback\": \"fast\", \"coarse\": true, \"decision_max_ms\": 60000}]";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private final Queue<String> mistakes = new ConcurrentLinkedQueue<>();
  private final AtomicBoolean over = new AtomicBoolean();
  private final Random random = new Random(7);
  private MockRM rm;

  @AfterEach
  void stop() {
    over.set(true);
    TestRms.stop(rm);
  }

  private void start() throws Exception {
    conf.set(ShimConfig.ENGINE_CLASS, NamedEngine.class.getName());
    conf.setClass(YarnConfiguration.RM_SCHEDULER, CheckedScheduler.class, CapacityScheduler.class);
    conf.set(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, "0.9");
    CheckedScheduler.reset("TEZ", NODES * NODE_MB / 4);
    NamedEngine.reset("fast", ROSTER);
    NamedEngine.script("fast", frame -> NamedEngine.withStatus("fast", propose(frame, NODES)));
    NamedEngine.script("slow", frame -> propose(frame, NODES));
    NamedEngine.script("claimed", frame -> propose(frame, NODES));
    rm = new MockRM(conf);
    rm.start();
    for (int i = 0; i < NODES; i++) {
      rm.registerNode("h" + i + ":1234", NODE_MB);
    }
    Await.until("three engines schedule", () -> held("fast") && held("slow") && held("claimed"));
  }

  private ShimMetrics engine(String name) {
    return TestRms.scheduler(rm).shim().metrics(name);
  }

  private boolean held(String name) {
    return engine(name) != null && engine(name).numbers().get("LeaseHeld") == 1;
  }

  private long committed() {
    long sum = 0;
    for (String name : new String[] {"fast", "slow", "claimed"}) {
      sum += engine(name).numbers().get("Committed");
    }
    return sum;
  }

  /** The first keys of the first applications, everywhere. */
  private static byte[] propose(Frame frame, int nodes) {
    int[] triples = new int[3 * 8 * 2 * nodes];
    for (int i = 0; i < 16 * nodes; i++) {
      triples[3 * i] = i / 2 % 8;
      triples[3 * i + 1] = i % 2;
      triples[3 * i + 2] = (int) ((i / 16 + frame.sequence()) % nodes);
    }
    return frame.limit() < 16 * nodes || frame.observe() ? frame.answer() : frame.answer(triples);
  }

  private byte[] said(String engine, byte[] answer) {
    return engine.equals("fast") ? NamedEngine.withStatus("fast", answer) : answer;
  }

  /** What an engine does wrong from now on. */
  private ScriptedEngine.Script fault(String engine) {
    AtomicLong base = new AtomicLong();
    switch (random.nextInt(5)) {
      case 0:
        return frame -> {
          throw new IOException("killed");
        };
      case 1:
        return frame -> new byte[] {1, 2, 3};
      case 2:
        // decides on one frame for a while, then proposes what was true then
        return frame -> {
          if (frame.snapshot() || frame.sequence() > base.get() + 20) {
            long decided = base.getAndSet(frame.sequence());
            boolean late = !frame.snapshot() && decided > 0;
            return said(engine, late ? NamedEngine.decidedOn(decided, propose(frame, NODES)) : frame.answer());
          }
          return NamedEngine.busy(frame);
        };
      case 3:
        // loses track in the middle of a decision
        return frame -> frame.snapshot() ? said(engine, frame.answer())
            : frame.sequence() % 5 == 0 ? ScriptedEngine.answer(frame.epoch(), frame.sequence(), 1, "")
            : frame.sequence() % 2 == 0 ? NamedEngine.busy(frame) : said(engine, propose(frame, NODES));
      default:
        // on nodes, and for applications, that there are not
        return frame -> said(engine, frame.limit() < 256 ? frame.answer() : propose(frame, 16));
    }
  }

  private MockAM launch(String type) throws Exception {
    return TestRms.launchByEngine(rm, MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(1024, 1), rm).withQueue("default").withAppType(type)
        .withWaitForAppAcceptedState(false).build()));
  }

  private static List<ContainerId> ask(MockAM am, int count, List<ContainerId> back) throws Exception {
    return am.allocate("*", 1024, count, back).getAllocatedContainers().stream().map(Container::getId)
        .collect(Collectors.toList());
  }

  private void live(MockAM am, Random mine) throws Exception {
    List<ContainerId> has = Collections.emptyList();
    while (!over.get()) {
      has = ask(am, mine.nextInt(5), has);
      LockSupport.parkNanos(mine.nextInt(5_000_000));
    }
    ask(am, 0, has);
  }

  @Test
  void whateverEnginesDoNoLimitIsBroken() throws Exception {
    start();
    List<Thread> threads = new ArrayList<>();
    List<MockAM> ams = new ArrayList<>();
    for (int i = 0; i < 2 * TYPES.length; i++) {
      MockAM am = launch(TYPES[i % TYPES.length]);
      Random mine = new Random(i);
      ams.add(am);
      threads.add(new Thread(() -> {
        try {
          live(am, mine);
        } catch (Throwable t) {
          mistakes.add(t.toString());
        }
      }, "am-" + i));
    }
    threads.forEach(Thread::start);
    for (long begun = committed(); committed() < begun + COMMITS; ) {
      String failing = FAILING[random.nextInt(FAILING.length)];
      NamedEngine.script(failing, fault(failing));
      long before = committed();
      Await.until("others go on", () -> committed() >= before + COMMITS_A_FAULT || !mistakes.isEmpty());
      NamedEngine.script(failing, frame -> said(failing, propose(frame, NODES)));
      Await.until(failing + " is back", () -> held(failing));
      assertEquals("[]", mistakes.toString());
    }
    over.set(true);
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals("[]", CheckedScheduler.mistakes().toString());
    for (MockAM am : ams) {
      // it takes what it has been given, and gives all back
      ask(am, 0, Collections.emptyList());
      ask(am, 0, live(am).getLiveContainers().stream().filter(each -> !each.isAMContainer())
          .map(each -> each.getContainerId()).collect(Collectors.toList()));
    }
    for (MockAM am : ams) {
      ask(am, 1, Collections.emptyList());
    }
    for (MockAM am : ams) {
      Await.until("everybody has what it asks for", () -> live(am).getLiveContainers().size() == 2);
    }
    assertEquals("", new Accounting(TestRms.scheduler(rm)).mistakes());
    assertEquals(0, engine("claimed").numbers().get("LinkFailures").longValue());
  }

  private FiCaSchedulerApp live(MockAM am) {
    return TestRms.scheduler(rm).getApplicationAttempt(am.getApplicationAttemptId());
  }
}

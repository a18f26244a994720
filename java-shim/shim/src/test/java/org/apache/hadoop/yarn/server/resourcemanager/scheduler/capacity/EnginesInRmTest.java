package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.Await;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.NamedEngine;
import io.treadle.shim.link.ScriptedEngine;
import io.treadle.shim.link.ScriptedEngine.Frame;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A real ResourceManager whose applications are served by two engines, by their type. */
@Timeout(300)
class EnginesInRmTest {
  private static final String BEANS = "Hadoop:service=ResourceManager,name=";
  private static final String TWO = "[{\"name\": \"fast\", \"entry\": \"fast\", \"select\": {\"types\": [\"SPARK\"]}},"
      + "{\"name\": \"slow\", \"entry\": \"slow\", \"fallback\": \"fast\"}]";

  private final YarnConfiguration conf = TestRms.withEngine("enforce");
  private final ObjectMapper json = new ObjectMapper();
  private MockRM rm;
  private MockNM node;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
    assertEquals(0, NamedEngine.open(), "engines left open");
  }

  private void start() throws Exception {
    start(TWO);
  }

  private void start(String roster) throws Exception {
    conf.set(ShimConfig.ENGINE_CLASS, NamedEngine.class.getName());
    conf.set(CapacitySchedulerConfiguration.MAXIMUM_APPLICATION_MASTERS_RESOURCE_PERCENT, "0.9");
    NamedEngine.reset("fast", roster);
    rm = new MockRM(conf);
    rm.start();
    node = rm.registerNode("h1:1234", 64 * 1024);
    awaitServing("fast", "fast");
    awaitServing("slow", "slow");
  }

  private Object bean(String name, String attribute) throws Exception {
    MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    ObjectName bean = new ObjectName(BEANS + name);
    return server.isRegistered(bean) ? server.getAttribute(bean, attribute) : null;
  }

  private long number(String engine, String attribute) throws Exception {
    Object value = bean(engine.isEmpty() ? "Treadle" : "TreadleEngine-" + engine, attribute);
    return value == null ? -1 : (Long) value;
  }

  private void await(String engine, String attribute, long value) throws Exception {
    Await.until(attribute + " of " + engine + " is " + value, () -> number(engine, attribute) == value);
  }

  private JsonNode engines() throws Exception {
    Object text = bean("TreadleEngines", "Engines");
    return json.readTree(text == null ? "{}" : (String) text);
  }

  private void awaitServing(String home, String engine) throws Exception {
    Await.until(engine + " serves what is " + home + "'s",
        () -> engine.equals(engines().path("engines").path(home).path("served_by").asText()));
  }

  private RMApp submit(String type) throws Exception {
    return MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(1024, 1), rm).withQueue("default").withAppType(type)
        .withWaitForAppAcceptedState(false).build());
  }

  private MockAM launch(String type) throws Exception {
    return TestRms.launchByEngine(rm, submit(type));
  }

  private void ask(MockAM am, int count) throws Exception {
    am.allocate("*", 1024, count, Collections.emptyList());
  }

  private String owner(MockAM am) throws Exception {
    return engines().path("applications").path(am.getApplicationAttemptId().getApplicationId().toString()).path(1)
        .asText();
  }

  /** Another roster, with another configuration. */
  private void change(String roster) throws Exception {
    NamedEngine.roster(roster);
    TestRms.refresh(rm, conf);
  }

  @Test
  void eachEngineServesItsOwn() throws Exception {
    start();
    MockAM spark = launch("SPARK");
    await("fast", "Committed", 1);
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    ask(spark, 3);
    await("fast", "Committed", 4);
    ask(mapReduce, 2);
    await("slow", "Committed", 3);
    await("", "Committed", 7);
    assertEquals("fast", owner(spark));
    assertEquals("slow", owner(mapReduce));
    assertEquals(4 + 3, TestRms.containers(rm, node));
    assertEquals(0, number("", "PlacedNatively"));
    for (String engine : new String[] {"fast", "slow"}) {
      assertEquals(1, number(engine, "LeaseFlips"), engine);
      assertEquals(0, number(engine, "RejectedNotOwner"), engine);
    }
    assertEquals("fast", bean("TreadleEngine-fast", "Policy"));
    assertEquals("slow", bean("TreadleEngine-slow", "Policy"));
  }

  @Test
  void aDeadEnginesApplicationsAreServedByItsFallbackAndReturn() throws Exception {
    start();
    MockAM spark = launch("SPARK");
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    NamedEngine.script("slow", frame -> {
      throw new IOException("killed");
    });
    awaitServing("slow", "fast");
    ask(mapReduce, 2);
    ask(spark, 2);
    await("fast", "Committed", 5);
    assertEquals("fast", owner(mapReduce));
    Await.until("it says why", () -> "killed".equals(bean("TreadleEngine-slow", "LastError")));
    assertEquals("engine slow: killed", bean("Treadle", "LastError"));
    assertEquals(1, number("", "Schedules"));
    NamedEngine.script("slow", frame -> NamedEngine.proposeAll("slow", frame));
    await("slow", "LeaseHeld", 1);
    assertEquals("fast", engines().path("engines").path("slow").path("served_by").asText());
    awaitServing("slow", "slow");
    ask(mapReduce, 4);
    await("slow", "Committed", 1 + 4);
    assertEquals(5, number("fast", "Committed"));
    assertEquals(0, number("", "PlacedNatively"));
    assertEquals(1, number("fast", "LeaseFlips"));
  }

  @Test
  void whenAllAreDeadStockSchedules() throws Exception {
    start();
    for (String engine : new String[] {"fast", "slow"}) {
      NamedEngine.script(engine, frame -> {
        throw new IOException("killed");
      });
    }
    await("fast", "LeaseHeld", 0);
    await("slow", "LeaseHeld", 0);
    assertEquals(0, number("", "Schedules"));
    MockRM.launchAndRegisterAM(submit("MAPREDUCE"), rm, node);
    TestRms.await(rm, "PlacedNatively", 1);
    NamedEngine.script("slow", frame -> NamedEngine.proposeAll("slow", frame));
    awaitServing("fast", "slow");
    MockAM spark = launch("SPARK");
    assertEquals("slow", owner(spark));
    TestRms.await(rm, "PlacedNatively", 1);
  }

  @Test
  void aRosterThatChangesEndsAndStartsEngines() throws Exception {
    start();
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    change("[]");
    node.nodeHeartbeat(true);
    ask(mapReduce, 1);
    Await.until("one engine is left", () -> NamedEngine.open() == 1);
    Await.until("the bean of the other has gone", () -> bean("TreadleEngine-slow", "Committed") == null);
    ask(mapReduce, 2);
    Await.until("all are placed", () -> TestRms.containers(rm, node) >= 3);
    change(TWO);
    ask(mapReduce, 0);
    node.nodeHeartbeat(true);
    awaitServing("slow", "slow");
    MockAM other = launch("MAPREDUCE");
    assertEquals("slow", owner(other));
    assertEquals(0, TestRms.number(rm, "PlacedNatively"));
  }

  @Test
  void aRosterThatCannotBeUsedIsSaidAndTheOldOneGoesOn() throws Exception {
    start();
    change("[{\"name\": \"Wrong\"}]");
    Await.until("it is said", () -> String.valueOf(bean("TreadleEngine-fast", "LastError"))
        .contains("the old one goes on: an engine's name is 'Wrong'"));
    MockAM mapReduce = launch("MAPREDUCE");
    assertEquals("slow", owner(mapReduce));
    change(TWO);
    Await.until("it is mended", () -> "".equals(bean("TreadleEngine-fast", "LastError")));
  }

  /** A sidecar that names other engines in each answer has no more processes started than another configuration has. */
  @Test
  void aRosterIsTakenOnceForEachConfiguration() throws Exception {
    start();
    AtomicInteger named = new AtomicInteger();
    NamedEngine.script("fast", frame -> NamedEngine.saying(frame, "{\"policy\": \"fast\", \"configuration\": "
        + named.incrementAndGet() + ", \"engines\": [{\"name\": \"fast\"}, {\"name\": \"e" + named.get() + "\"}]}"));
    String remedy = "the sidecar names other engines than those that run: 'yarn rmadmin -refreshQueues' takes them";
    for (int taken = 1; taken <= 2; taken++) {
      Await.until("it is refused", () -> remedy.equals(bean("TreadleEngine-fast", "LastError")));
      int before = named.get();
      Await.until("it names ten others", () -> {
        node.nodeHeartbeat(true);
        return named.get() >= before + 10;
      });
      assertEquals(2, engines().path("engines").size(), engines().toString());
      assertEquals(taken == 1, engines().path("engines").has("slow"));
      String running = engines().path("engines").toString();
      TestRms.refresh(rm, conf);
      Await.until("another is taken", () -> !running.equals(engines().path("engines").toString()));
    }
    change(TWO);
    NamedEngine.script("fast", frame -> NamedEngine.proposeAll("fast", frame));
    awaitServing("slow", "slow");
    Await.until("all is well", () -> "".equals(bean("TreadleEngine-fast", "LastError")));
  }

  /** An engine that still proposes for an application that has moved commits nothing of it. */
  @Test
  void proposalsForOthersApplicationsAreTurnedDown() throws Exception {
    start();
    NamedEngine.script("slow", frame -> NamedEngine.proposeAll("slow", frame));
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    // a type of its own moves it: SPARK's engine serves everything from now on
    change("[{\"name\": \"fast\", \"entry\": \"fast\"}, {\"name\": \"slow\", \"entry\": \"slow\"}]");
    Await.until("it has moved", () -> "fast".equals(owner(mapReduce)));
    ask(mapReduce, 2);
    await("fast", "Committed", 2);
    Await.until("the old owner goes on proposing", () -> number("slow", "RejectedNotOwner") > 0);
    assertEquals(1, number("slow", "Committed"));
    assertTrue(NamedEngine.frames("slow").stream().filter(Frame::snapshot).count() == 1);
  }

  /** What an engine gives up another serves, and it stays there; its diagnostics report it. */
  @Test
  void whatAnEngineGivesUpAnotherServes() throws Exception {
    start();
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    NamedEngine.script("slow", frame -> NamedEngine.saying(frame,
        "{\"policy\":\"slow\",\"given_up\":[[0,\"engine slow has given it up\"],[77,\"nobody\"]],"
            + "\"figures\":{\"WaitP99Ms\":1234,\"Retries\":7,\"Unknown\":1}}"));
    ask(mapReduce, 2);
    await("fast", "Committed", 2);
    assertEquals("fast", owner(mapReduce));
    JsonNode shown = engines().path("applications").path(mapReduce.getApplicationAttemptId().getApplicationId().toString());
    assertEquals("[\"slow\",\"fast\",\"given up\"]", shown.toString());
    await("slow", "GivenUp", 1);
    await("slow", "Moved", 1);
    await("slow", "WaitP99Ms", 1234);
    await("", "Retries", 7);
    assertEquals("Treadle's scheduling engine: engine slow has given it up; engine fast serves it now",
        rm.getRMContext().getRMApps().get(mapReduce.getApplicationAttemptId().getApplicationId()).getDiagnostics()
            .toString());
    // the last answer that gives it up has been taken when the one after it is asked for
    NamedEngine.script("slow", frame -> NamedEngine.proposeAll("slow", frame));
    int asked = NamedEngine.frames("slow").size();
    Await.until("nothing is given up any more", () -> NamedEngine.frames("slow").size() > asked + 1);
    // another roster finds all homes anew
    change(TWO.replace("\"fallback\": \"fast\"", "\"fallback\": \"fast\", \"precedence\": 1"));
    Await.until("it is back", () -> "slow".equals(owner(mapReduce)));
    assertEquals(0, number("", "PlacedNatively"));
  }

  /** No engine uses more of the cluster than it may claim, though there is room. */
  @Test
  void aClaimBoundsAnEngine() throws Exception {
    // of 64 containers of 1 GB
    start(TWO.replace("\"fallback\": \"fast\"", "\"fallback\": \"fast\", \"claim\": 0.1"));
    MockAM mapReduce = launch("MAPREDUCE");
    ask(mapReduce, 20);
    Await.until("it is refused more", () -> number("slow", "RejectedClaim") > 0);
    await("slow", "Committed", 6);
    MockAM spark = launch("SPARK");
    ask(spark, 20);
    await("fast", "Committed", 21);
    assertEquals(6 + 21, TestRms.containers(rm, node));
  }

  private static long lastSequence(String engine) {
    return NamedEngine.frames(engine).get(NamedEngine.frames(engine).size() - 1).sequence();
  }

  /** A slow engine's lease goes on while it says that it decides, and what it decided on an old frame is committed. */
  @Test
  void aSlowEngineKeepsItsLeaseAndNobodyWaitsForIt() throws Exception {
    start();
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    AtomicLong base = new AtomicLong();
    NamedEngine.script("slow", frame -> {
      base.compareAndSet(0, frame.sequence());
      return NamedEngine.busy(frame);
    });
    MockAM spark = launch("SPARK");
    ask(spark, 3);
    await("fast", "Committed", 4);
    ask(mapReduce, 1);
    Await.until("it was asked for a while", () -> base.get() > 0 && lastSequence("slow") > base.get() + 20);
    assertEquals(1, number("slow", "Committed"));
    AtomicBoolean first = new AtomicBoolean(true);
    NamedEngine.script("slow", frame -> first.getAndSet(false)
        ? NamedEngine.decidedOn(base.get(), NamedEngine.proposeAll("slow", frame)) : frame.answer());
    await("slow", "Committed", 2);
    for (String engine : new String[] {"fast", "slow"}) {
      assertEquals(1, number(engine, "LeaseFlips"), engine);
      assertEquals(0, number(engine, "LinkFailures"), engine);
    }
    assertEquals(0, number("", "PlacedNatively"));
  }

  @Test
  void anEngineThatDecidesForTooLongIsDead() throws Exception {
    start();
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    change(TWO.replace("\"fallback\": \"fast\"", "\"fallback\": \"fast\", \"decision_max_ms\": 300"));
    NamedEngine.script("slow", NamedEngine::busy);
    ask(mapReduce, 2);
    await("fast", "Committed", 2);
    Await.until("it says why", () -> String.valueOf(bean("TreadleEngine-slow", "LastError"))
        .contains("has decided for longer than 300 ms (decision_max_s)"));
    assertEquals("fast", owner(mapReduce));
    assertEquals(0, number("", "PlacedNatively"));
  }

  @Test
  void whatWasDecidedBeforeASnapshotIsNotCommitted() throws Exception {
    start();
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    AtomicLong base = new AtomicLong();
    NamedEngine.script("slow", frame -> {
      if (frame.snapshot()) {
        base.set(frame.sequence());
        return frame.answer();
      }
      return base.get() == 0 ? ScriptedEngine.answer(frame.epoch(), frame.sequence(), 1, "")
          : NamedEngine.decidedOn(base.get() - 1, NamedEngine.proposeAll("slow", frame));
    });
    ask(mapReduce, 2);
    Await.until("it says why", () -> String.valueOf(bean("TreadleEngine-slow", "LastError"))
        .contains("which is too old to be acted upon"));
    assertEquals(1, number("slow", "Committed"));
  }

  /** Coarse conflicts: what others have committed since the frame that was decided on, whether or not it would fit. */
  @Test
  void aNodeOnWhichAnotherEngineHasCommittedMeanwhileIsAConflict() throws Exception {
    start(TWO.replace("\"fallback\": \"fast\"", "\"fallback\": \"fast\", \"coarse\": true"));
    MockAM mapReduce = launch("MAPREDUCE");
    await("slow", "Committed", 1);
    ask(mapReduce, 2);
    await("slow", "Committed", 3);
    AtomicLong base = new AtomicLong();
    NamedEngine.script("slow", frame -> {
      base.compareAndSet(0, frame.sequence());
      return NamedEngine.busy(frame);
    });
    Await.until("it decides", () -> base.get() > 0);
    MockAM spark = launch("SPARK");
    assertEquals("fast", owner(spark));
    ask(mapReduce, 2);
    // in each frame, since the first one may not have the asks yet
    NamedEngine.script("slow", frame -> NamedEngine.decidedOn(base.get(), NamedEngine.proposeAll("slow", frame)));
    Await.until("it conflicts", () -> number("slow", "RejectedChanged") > 0);
    assertEquals(3, number("slow", "Committed"));
    // its own commits are none
    NamedEngine.script("slow", frame -> NamedEngine.proposeAll("slow", frame));
    await("slow", "Committed", 5);
    assertEquals(0, number("fast", "RejectedChanged"));
  }
}

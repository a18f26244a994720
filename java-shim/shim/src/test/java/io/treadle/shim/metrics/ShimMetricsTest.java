// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.Await;
import io.treadle.shim.metrics.ShimMetrics.DecideTimes;
import io.treadle.shim.wire.Fate;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricType;
import org.apache.hadoop.metrics2.MetricsRecord;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.apache.hadoop.metrics2.impl.MsInfo;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.junit.jupiter.api.Test;

class ShimMetricsTest {
  private static final MBeanServer SERVER = ManagementFactory.getPlatformMBeanServer();
  private static final ObjectName BEAN = bean();
  private static final List<String> NUMBERS = Arrays.asList("ModeEnforce", "Frames",
      "FrameBytes", "ReplyBytes", "Proposals", "Committed", "Rejected", "RejectedNodeFull", "RejectedUserLimit",
      "RejectedUnknownApplication", "PlacedByCapacityScheduler",
      "DecideP50Us", "DecideP99Us", "CommitWallNanos", "CommitCpuNanos",
      "LinkCpuNanos", "FrameNanos", "AnswerWaitNanos", "SidecarStarts", "LinkFailures");
  private static final List<String> TEXTS =
      Arrays.asList("Mode", "LastError", "Policy", "Learned", "Warnings", "Refusal");

  private final ShimMetrics metrics = new ShimMetrics();

  private static ObjectName bean() {
    try {
      return new ObjectName("Hadoop:service=ResourceManager,name=Treadle");
    } catch (MalformedObjectNameException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void countsFatesByReason() {
    for (Fate fate : Fate.values()) {
      metrics.fate(fate);
      metrics.fate(fate);
    }
    assertEquals(2L, metrics.numbers().get("Committed"));
    assertEquals(2L, metrics.numbers().get("Observed"));
    assertEquals(2L, metrics.numbers().get("RejectedNodeFull"));
    assertEquals(2L * (Fate.values().length - 2), metrics.numbers().get("Rejected"));
    assertFalse(metrics.numbers().containsKey("RejectedCommitted"));
    for (String never : Arrays.asList("RejectedNotOwner", "RejectedChanged", "RejectedClaim")) {
      assertFalse(metrics.numbers().containsKey(never), never);
    }
  }

  @Test
  void hasEveryName() {
    assertTrue(metrics.numbers().keySet().containsAll(NUMBERS), metrics.numbers().keySet().toString());
    TEXTS.forEach(name -> assertEquals("", metrics.text(name)));
  }

  /** Users and sidecars choose texts; administrators read them in terminals. */
  @Test
  void everyTextIsOneLine() {
    String forged = "x\n2026-11-24 FATAL forged \u001b[2J";
    for (ShimMetrics.Text text : ShimMetrics.Text.values()) {
      metrics.show(text, forged);
    }
    metrics.troubles.note(Troubles.Kind.LINK, forged);
    assertFalse(metrics.getStatus().contains("\\n") || metrics.getStatus().contains("\\u001b"), metrics.getStatus());
    assertEquals("x 2026-11-24 FATAL forged  [2J", metrics.text("LastError"));
  }

  private static JsonNode attribute(String name) throws Exception {
    return new ObjectMapper().readTree((String) SERVER.getAttribute(BEAN, name));
  }

  @Test
  void theBeanIsLiveAndGoesAway() throws Exception {
    metrics.start();
    try {
      metrics.show(ShimMetrics.Text.MODE, "enforce");
      for (long i = 1; i < 4; i++) {
        metrics.fate(Fate.COMMITTED);
        assertEquals(i, attribute("Status").get("Committed").asLong());
      }
      assertEquals(1, attribute("Status").get("ModeEnforce").asInt());
      assertEquals("enforce", attribute("Status").get("Mode").asText());
      assertEquals("{}", attribute("Placements").toString());
    } finally {
      metrics.stop();
    }
    assertFalse(SERVER.isRegistered(BEAN));
  }

  @Test
  void theSchedulerThatStartedLastIsShown() throws Exception {
    ShimMetrics other = new ShimMetrics();
    metrics.gauge("LeaseHeld", () -> 1);
    other.gauge("LeaseHeld", () -> 0);
    metrics.start();
    other.start();
    assertEquals(0, attribute("Status").get("LeaseHeld").asInt());
    metrics.stop();
    assertEquals(0, attribute("Status").get("LeaseHeld").asInt());
    other.stop();
    assertFalse(SERVER.isRegistered(BEAN));
  }

  @Test
  void decideTimesAreThoseOfTheLastWindowAlone() throws Exception {
    DecideTimes times = new DecideTimes(1);
    times.add(7);
    Await.until("the window is over", () -> times.p50() == 7);
    Await.until("the next one, in which nothing was decided, is over", () -> times.p99() == 0);
    times.stop();
  }

  @Test
  void theBeanShowsDecideTimesInMicroseconds() throws Exception {
    metrics.answered(1, 1, 5_000);
    Await.until("the window is over", () -> metrics.numbers().get("DecideP50Us") == 5
        && metrics.numbers().get("DecideP99Us") == 5);
    metrics.stop();
  }

  /** Its Prometheus sink escapes nothing: one quote makes the whole page of the ResourceManager unreadable. */
  @Test
  void metrics2GetsEveryNumberAndNoText() {
    for (ShimMetrics.Text text : ShimMetrics.Text.values()) {
      metrics.show(text, "a \"text\" \\");
    }
    metrics.linkFailed("Cannot run program \"treadle\"");
    metrics.start();
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    metrics.getMetrics(collector, true);
    metrics.stop();
    assertEquals(1, collector.getRecords().size());
    MetricsRecord record = collector.getRecords().get(0);
    Set<String> numbers = new HashSet<>();
    record.metrics().forEach(number -> numbers.add(number.name()));
    assertTrue(numbers.containsAll(NUMBERS), record.toString());
    record.tags().forEach(tag -> assertEquals(MsInfo.Context.name(), tag.name()));
    record.metrics().forEach(number -> {
      boolean grows = number.name().equals("Frames") || number.name().startsWith("Rejected");
      assertTrue(!grows || number.type() == MetricType.COUNTER, number.toString());
    });
  }

  /** The servlet of {@code /jmx} asks for each attribute by itself. */
  @Test
  void aReadOfAnAttributeComputesThisOneAlone() throws Exception {
    AtomicInteger numbers = new AtomicInteger();
    metrics.gauge("Other", numbers::incrementAndGet);
    metrics.start();
    try {
      for (MBeanAttributeInfo attribute : SERVER.getMBeanInfo(BEAN).getAttributes()) {
        assertEquals(String.class.getName(), attribute.getType());
        attribute(attribute.getName());
      }
      assertEquals(1, numbers.get());
    } finally {
      metrics.stop();
    }
  }

  @Test
  void placementsAreThoseOfTheLastApplications() {
    for (int i = 0; i < ShimMetrics.APPLICATIONS + 5; i++) {
      metrics.placed(ApplicationId.newInstance(1, i), i % 2 == 0);
    }
    metrics.placed(ApplicationId.newInstance(1, ShimMetrics.APPLICATIONS), true);
    String text = metrics.getPlacements();
    assertFalse(text.contains("application_1_0004\""));
    assertTrue(text.contains("\"application_1_0005\":{\"treadle\":0,\"native\":1}"), text);
    assertTrue(text.contains("\"application_1_1000\":{\"treadle\":2,\"native\":0}"), text);
  }

  @Test
  void quantilesAreTheEstimators() {
    DecideTimes times = new DecideTimes(3600) {
      @Override
      public synchronized void add(long micros) {
        super.add(micros);
        previousSnapshot = getEstimator().snapshot();
      }
    };
    assertEquals(0, times.p50());
    for (int i = 1; i <= 1000; i++) {
      times.add(i);
    }
    times.stop();
    assertEquals(500, times.p50(), 50);
    assertEquals(990, times.p99(), 2);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.cluster.Answers;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What would have been done is judged without doing it, and compared with what is done. */
class ObserverTest {
  private static final int PRIORITY = 1;

  private ClusterFixture cluster;
  private Proposer proposer;
  private Observer observer;
  private MockNM one;
  private MockNM two;
  private MockAM am;
  private FiCaSchedulerApp app;
  private long nowMs;

  @BeforeEach
  void startJob() throws Exception {
    cluster = ClusterFixture.cluster().set("root.a.maximum-capacity", "75").start();
    one = cluster.node("one", 8192, 8);
    two = cluster.node("two", 8192, 8);
    am = cluster.startAm(cluster.submit("a", "ann", 1024), one);
    app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
    observer = new Observer(cluster.scheduler(), 1000, () -> nowMs);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  @Test
  void saysByTheWallClockSinceWhenItCounts() throws Exception {
    long since = new ObjectMapper()
        .readTree(new Observer(cluster.scheduler(), 1000, Time::monotonicNow).json()).get("since_ms").asLong();
    long now = System.currentTimeMillis();
    assertTrue(Math.abs(now - since) < TimeUnit.DAYS.toMillis(1), "since " + since + ", and it is " + now);
  }

  /** An answer at a time; none of its proposals is placed. */
  private void propose(long atMs, MockNM... nodes) {
    ApplicationAttemptId attempt = app.getApplicationAttemptId();
    SchedulerRequestKey key = Proposer.key(app, PRIORITY);
    NamedIndices names = proposer.indices();
    int[][] rows = new int[nodes.length][];
    for (int i = 0; i < nodes.length; i++) {
      rows[i] = new int[] {names.of(attempt), names.of(attempt, key), names.of(nodes[i].getNodeId())};
    }
    nowMs = atMs;
    ProposalFrame answer = Answers.of(rows);
    observer.judged(answer, proposer.committer().judge(answer, names, Integer.MAX_VALUE), names);
  }

  private void stockPlaces(long atMs, MockNM node) {
    nowMs = atMs;
    observer.placed(app, new SchedulerRequestKey(Priority.newInstance(PRIORITY), -1, null), node.getNodeId());
  }

  private JsonNode seen(long atMs) throws Exception {
    nowMs = atMs;
    return new ObjectMapper().readTree(observer.json());
  }

  /** Same node, other node, stock only; how many earlier and the sum of ms, the same of later; waiting. */
  private void assertTotal(long atMs, String expected) throws Exception {
    JsonNode seen = seen(atMs);
    for (JsonNode tally : new JsonNode[] {seen.get("total"), seen.get("by_queue").get("root.a"),
        seen.get("by_framework").get("MAPREDUCE")}) {
      StringBuilder text = new StringBuilder();
      tally.forEach(number -> text.append(' ').append(number.asLong()));
      assertEquals(expected, text.substring(1));
    }
  }

  @Test
  @Shows(Fate.OBSERVED)
  void judgingCountsWhatEarlierProposalsWouldTake() throws Exception {
    am.allocate("*", 3072, 3, Collections.emptyList());
    Map<String, String> before = new Accounting(cluster.scheduler()).snapshot();
    CommitResult result = proposer.add(4, app, PRIORITY, one).judge();
    assertEquals(2, result.count(Fate.OBSERVED), "7 GB are free");
    assertEquals(2, result.count(Fate.NODE_FULL));
    result = proposer.add(app, PRIORITY, one).add(3, app, PRIORITY, two).judge();
    assertEquals(3, result.count(Fate.OBSERVED));
    assertEquals(Fate.DUPLICATE, result.fate(3));
    assertEquals(before, new Accounting(cluster.scheduler()).snapshot());
  }

  @Test
  void judgingCountsQueues() throws Exception {
    am.allocate("*", 1024, 50, Collections.emptyList());
    CommitResult result = proposer.add(7, app, PRIORITY, one).add(8, app, PRIORITY, two).judge();
    assertEquals(11, result.count(Fate.OBSERVED), "12 GB less the AM");
    assertEquals(4, result.count(Fate.QUEUE_MAXIMUM));
  }

  @Test
  void eachContainerCountsOnceWhoeverWasFirst() throws Exception {
    am.allocate("*", 1024, 3, Collections.emptyList());
    propose(10, one, two);
    stockPlaces(110, one);
    stockPlaces(310, one);
    stockPlaces(410, two);
    assertTotal(1411, "1 1 1 2 400 0 0 0");
    assertEquals(3, seen(1411).get("stock_placements").asLong());
  }

  /** In this mode nothing is placed, so an engine proposes the same in each answer, perhaps on other nodes. */
  @Test
  void repeatsAreNotCountedAgain() throws Exception {
    am.allocate("*", 1024, 2, Collections.emptyList());
    for (long now = 0; now <= 5000; now += 100) {
      propose(now, one, now % 200 == 0 ? one : two);
    }
    assertTotal(5000, "0 0 0 0 0 0 0 2");
    stockPlaces(5050, one);
    assertTotal(5050, "1 0 0 1 5050 0 0 1");
    stockPlaces(5060, two);
    assertTotal(7000, "1 1 0 2 10110 0 0 0");
  }

  @Test
  void moreOfTheSameIsNew() throws Exception {
    am.allocate("*", 1024, 3, Collections.emptyList());
    propose(0, one);
    propose(100, one, two, two);
    assertTotal(100, "0 0 0 0 0 0 0 3");
    stockPlaces(150, two);
    stockPlaces(160, two);
    stockPlaces(170, one);
    assertTotal(170, "3 0 0 3 280 0 0 0");
  }

  /** The engine decided on a frame that was written before stock placed the container. */
  @Test
  void aProposalThatComesAfterThePlacementIsLater() throws Exception {
    am.allocate("*", 1024, 2, Collections.emptyList());
    NamedIndices names = proposer.indices();
    names.of(app.getApplicationAttemptId(), Proposer.key(app, PRIORITY));
    am.allocate("*", 1024, 0, Collections.emptyList());
    stockPlaces(100, one);
    stockPlaces(120, two);
    nowMs = 250;
    int application = names.of(app.getApplicationAttemptId());
    ProposalFrame late = Answers.of(new int[] {application, 0, names.of(two.getNodeId())},
        new int[] {application, 0, names.of(two.getNodeId())}, new int[] {application, 0, names.of(one.getNodeId())});
    observer.judged(late, proposer.committer().judge(late, names, Integer.MAX_VALUE), names);
    assertTotal(5000, "1 1 0 0 0 2 280 0");
    assertTrue(seen(5000).get("would_reject").isEmpty(), "they were placed");
  }

  @Test
  void whatIsProposedNoLongerIsForgotten() throws Exception {
    am.allocate("*", 1024, 2, Collections.emptyList());
    propose(0, one, one);
    propose(800, one);
    propose(1600, one);
    assertTotal(1600, "0 0 0 0 0 0 0 1");
    stockPlaces(1700, one);
    stockPlaces(1710, one);
    assertTotal(3000, "1 0 1 1 1700 0 0 0");
  }

  @Test
  void aRejectionIsCountedOnceUntilSomethingIsPlaced() throws Exception {
    am.allocate("*", 8192, 1, Collections.emptyList());
    for (long now = 0; now < 100_000; now += 500) {
      propose(now, one);
    }
    assertEquals(1, seen(100_000).get("would_reject").get("NODE_FULL").asLong());
    stockPlaces(100_000, two);
    propose(100_100, one);
    assertEquals(2, seen(100_100).get("would_reject").get("NODE_FULL").asLong());
  }

  /** A queue that a placement rule creates may have an application's name; Hadoop's Prometheus sink escapes nothing. */
  @Test
  void metrics2GetsNoTextButNamesOfQueuesWithoutQuotes() throws Exception {
    cluster.close();
    cluster = ClusterFixture.cluster().queues("root", "a,q\"\\").capacity("root.a", 50).capacity("root.q\"\\", 50)
        .start();
    observer = new Observer(cluster.scheduler(), 1000, () -> nowMs);
    app = cluster.attempt(cluster.submit(MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm())
        .withQueue("q\"\\").withAppType("type \"t\"")));
    observer.placed(app, new SchedulerRequestKey(Priority.newInstance(1), 0, null), NodeId.newInstance("one", 1));
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    observer.getMetrics(collector, true);
    Set<String> tags = new HashSet<>();
    collector.getRecords().forEach(record -> record.tags().forEach(tag -> tags.add(tag.name() + "=" + tag.value())));
    assertEquals(new HashSet<>(Arrays.asList("Context=yarn", "Queue=root.q__")), tags);
  }
}

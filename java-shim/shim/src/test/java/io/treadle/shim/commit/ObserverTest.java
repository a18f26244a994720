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

  @BeforeEach
  void startJob() throws Exception {
    cluster = ClusterFixture.cluster().set("root.a.maximum-capacity", "75").start();
    one = cluster.node("one", 8192, 8);
    two = cluster.node("two", 8192, 8);
    am = cluster.startAm(cluster.submit("a", "ann", 1024), one);
    app = cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
    cluster.scheduler().setClosed(true);
    proposer = new Proposer(cluster);
    observer = new Observer(cluster.scheduler(), 1000, 0);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  @Test
  void saysByTheWallClockSinceWhenItCounts() throws Exception {
    long since = new ObjectMapper()
        .readTree(new Observer(cluster.scheduler(), 1000, Time.monotonicNow()).json()).get("since_ms").asLong();
    long now = System.currentTimeMillis();
    assertTrue(Math.abs(now - since) < TimeUnit.DAYS.toMillis(1), "since " + since + ", and it is " + now);
  }

  private JsonNode seen() throws Exception {
    return new ObjectMapper().readTree(observer.json());
  }

  private void propose(long nowMs, MockNM... nodes) {
    ApplicationAttemptId attempt = app.getApplicationAttemptId();
    SchedulerRequestKey key = Proposer.key(app, PRIORITY);
    NamedIndices names = proposer.indices();
    int[][] rows = new int[nodes.length][];
    for (int i = 0; i < nodes.length; i++) {
      rows[i] = new int[] {names.of(attempt), names.of(attempt, key), names.of(nodes[i].getNodeId())};
    }
    ProposalFrame answer = Answers.of(rows);
    observer.judged(answer, proposer.committer().judge(answer, names, Integer.MAX_VALUE), names, nowMs);
  }

  private void stockPlaces(MockNM node) {
    observer.placed(app, Proposer.key(app, PRIORITY), node.getNodeId());
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
  void sameNodeAgrees() throws Exception {
    am.allocate("*", 1024, 3, Collections.emptyList());
    propose(10, one, two);
    stockPlaces(one);
    stockPlaces(one);
    stockPlaces(one);
    JsonNode seen = seen();
    assertEquals(2, seen.get("would_commit").asLong());
    assertEquals(3, seen.get("stock_placements").asLong());
    for (JsonNode tally : new JsonNode[] {seen.get("total"), seen.get("by_queue").get("root.a"),
        seen.get("by_framework").get("MAPREDUCE")}) {
      assertEquals(1, tally.get("agreed").asLong());
      assertEquals(1, tally.get("other_node").asLong());
      assertEquals(1, tally.get("stock_only").asLong());
      assertEquals(0, tally.get("treadle_only").asLong());
    }
  }

  @Test
  void whatStockDoesNotPlaceIsCountedOnce() throws Exception {
    am.allocate("*", 1024, 1, Collections.emptyList());
    for (long now = 0; now <= 5000; now += 100) {
      propose(now, one);
    }
    assertEquals(1, seen().get("total").get("treadle_only").asLong());
    stockPlaces(one);
    assertEquals(1, seen().get("total").get("stock_only").asLong());
  }

  @Test
  void changedMindIsNotCounted() throws Exception {
    am.allocate("*", 1024, 1, Collections.emptyList());
    propose(0, one);
    for (long now = 100; now <= 800; now += 100) {
      propose(now, two);
    }
    stockPlaces(two);
    observer.expire(5000);
    assertEquals(0, seen().get("total").get("treadle_only").asLong());
    assertEquals(1, seen().get("total").get("agreed").asLong());
  }

  /** A queue that a placement rule creates may have an application's name; Hadoop's Prometheus sink escapes nothing. */
  @Test
  void metrics2GetsNoTextButNamesOfQueuesWithoutQuotes() throws Exception {
    cluster.close();
    cluster = ClusterFixture.cluster().queues("root", "a,q\"\\").capacity("root.a", 50).capacity("root.q\"\\", 50).start();
    observer = new Observer(cluster.scheduler(), 1000, 0);
    app = cluster.attempt(cluster.submit(MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm())
        .withQueue("q\"\\").withAppType("type \"t\"")));
    observer.placed(app, new SchedulerRequestKey(Priority.newInstance(1), 0, null), NodeId.newInstance("one", 1));
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    observer.getMetrics(collector, true);
    Set<String> tags = new HashSet<>();
    collector.getRecords().forEach(record -> record.tags().forEach(tag -> tags.add(tag.name() + "=" + tag.value())));
    assertEquals(new HashSet<>(Arrays.asList("Context=yarn", "Queue=root.q__")), tags);
  }

  @Test
  void rejectionsAreCountedByReason() throws Exception {
    am.allocate("*", 8192, 1, Collections.emptyList());
    propose(0, one);
    assertEquals(1, seen().get("would_reject").get("NODE_FULL").asLong());
    assertEquals(1, seen().get("proposals").asLong());
    assertTrue(seen().get("by_queue").isEmpty());
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.Printable;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.Interns;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Compares what an engine would do with what the stock scheduler does (observe_only). Each container of the stock
 * scheduler counts once; docs/observe.md says how. Memory is bounded: of too many request keys the oldest is forgotten.
 * The monitor is held for one comparison; no thread of the scheduler waits for it.
 */
public final class Observer implements MetricsSource {
  /** How long after the stock scheduler has placed a container a proposal is awaited for it, milliseconds. */
  public static final long DEFAULT_WINDOW_MS = 1000;

  private static final int MOST_ASKS = 20_000;
  private static final int MOST_NAMES = 1000;
  private static final int MOST_UNREAD = 100_000;
  private static final String OTHERS = "(others)";

  private final SchedulerPort port;
  private final long windowMs;
  private final LongSupplier clock;
  /** When counting began, by the wall clock: administrators read it. */
  private final long sinceMs = Time.now();
  private final Map<Ask, WouldBe> asks = new LinkedHashMap<>();
  private final Map<Fate, Long> rejected = new EnumMap<>(Fate.class);
  private final LongAdder stockPlacements = new LongAdder();
  private final LongAdder forgotten = new LongAdder();
  private final Agreement total = new Agreement();
  private final Map<String, Agreement> byQueue = new TreeMap<>();
  private final Map<String, Agreement> byFramework = new TreeMap<>();
  /** What the stock scheduler placed and nobody has compared yet. */
  private final Queue<Runnable> unread = new ConcurrentLinkedQueue<>();
  private final AtomicInteger unreadSize = new AtomicInteger();
  private long expiredMs;

  /**
   * Makes an observer that has seen nothing.
   *
   * @param windowMs how long a proposal may come after a placement, and how long one that is not repeated is remembered
   * @param clock milliseconds that never go back
   */
  public Observer(SchedulerPort port, long windowMs, LongSupplier clock) {
    this.port = port;
    this.windowMs = windowMs;
    this.clock = clock;
    this.expiredMs = clock.getAsLong();
  }

  /** Takes in an answer and what {@link Committer#judge} said of it. Link thread. */
  public synchronized void judged(ProposalFrame answer, CommitResult result, Directory directory) {
    readPlaced();
    long nowMs = clock.getAsLong();
    Map<WouldBe, Map<NodeId, Integer>> proposed = new HashMap<>();
    for (int position = 0; position < result.size(); position++) {
      Fate fate = result.fate(position);
      WouldBe ask = ask(answer.application(position), answer.requestKey(position), directory);
      int index = answer.node(position);
      NodeId node = index < 0 || index >= directory.nodes() ? null : directory.node(index);
      if (fate == Fate.OBSERVED) {
        if (ask != null && node != null) {
          proposed.computeIfAbsent(ask, any -> new HashMap<>()).merge(node, 1, Integer::sum);
        }
      } else if (fate == Fate.NO_PENDING_ASK || fate == Fate.DUPLICATE) {
        if (ask != null) {
          ask.proposedLate(node, nowMs);
        }
      } else if (ask == null || ask.isRejectedAnew(fate, nowMs)) {
        rejected.merge(fate, 1L, Long::sum);
      }
    }
    proposed.forEach((ask, nodes) -> ask.propose(nodes, nowMs));
    expire();
  }

  private WouldBe ask(int application, int key, Directory directory) {
    ApplicationAttemptId attempt = directory.applicationOrNull(application);
    if (attempt == null || key < 0 || key >= directory.requestKeys(application)) {
      return null;
    }
    FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
    SchedulerRequestKey request = directory.requestKey(application, key);
    return app == null || request == null ? null : ask(new Ask(attempt, request), queue(app), attempt);
  }

  private WouldBe ask(Ask ask, String queue, ApplicationAttemptId attempt) {
    WouldBe known = asks.get(ask);
    if (known != null) {
      return known;
    }
    if (asks.size() >= MOST_ASKS) {
      asks.remove(asks.keySet().iterator().next());
      forgotten.increment();
    }
    WouldBe made = new WouldBe(total, named(byQueue, queue), named(byFramework, framework(attempt)));
    asks.put(ask, made);
    return made;
  }

  private static String queue(FiCaSchedulerApp app) {
    return ((CSQueue) app.getQueue()).getQueuePath();
  }

  /**
   * The stock scheduler placed a container. Called after each native commit in observe_only, on threads that may hold
   * the scheduler's lock: only takes a note, so that none of them waits for a comparison.
   */
  public void placed(FiCaSchedulerApp app, SchedulerRequestKey key, NodeId node) {
    stockPlacements.increment();
    if (unreadSize.get() >= MOST_UNREAD) {
      forgotten.increment();
      return;
    }
    unreadSize.incrementAndGet();
    long nowMs = clock.getAsLong();
    ApplicationAttemptId attempt = app.getApplicationAttemptId();
    String queue = queue(app);
    unread.add(() -> ask(new Ask(attempt, key), queue, attempt).placed(node, nowMs));
  }

  private void readPlaced() {
    for (Runnable placed = unread.poll(); placed != null; placed = unread.poll()) {
      unreadSize.decrementAndGet();
      placed.run();
    }
  }

  /** Does little if called often. */
  private void expire() {
    long nowMs = clock.getAsLong();
    if (nowMs - expiredMs >= windowMs / 10) {
      expiredMs = nowMs;
      asks.values().removeIf(ask -> ask.expire(nowMs, windowMs));
    }
  }

  private static Agreement named(Map<String, Agreement> tallies, String name) {
    return tallies.computeIfAbsent(
        tallies.containsKey(name) || tallies.size() < MOST_NAMES ? name : OTHERS, any -> new Agreement());
  }

  private String framework(ApplicationAttemptId attempt) {
    RMApp app = port.rmContext().getRMApps().get(attempt.getApplicationId());
    String type = app == null ? null : app.getApplicationType();
    return type == null || type.isEmpty() ? "YARN" : type;
  }

  /** Compares what there is, and counts what waits. */
  private void upToNow() {
    readPlaced();
    expire();
    total.clear(Agreement.Count.WAITING);
    byQueue.values().forEach(tally -> tally.clear(Agreement.Count.WAITING));
    byFramework.values().forEach(tally -> tally.clear(Agreement.Count.WAITING));
    asks.values().forEach(WouldBe::addWaiting);
  }

  /** All of it as a JSON object, as in docs/observe.md. */
  public synchronized String json() {
    upToNow();
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    json.put("since_ms", sinceMs).put("window_ms", windowMs).put("stock_placements", stockPlacements.sum())
        .put("forgotten", forgotten.sum());
    ObjectNode reasons = json.putObject("would_reject");
    rejected.forEach((fate, count) -> reasons.put(fate.toString(), count));
    total.write(json.putObject("total"));
    ObjectNode queues = json.putObject("by_queue");
    byQueue.forEach((queue, tally) -> tally.write(queues.putObject(queue)));
    ObjectNode frameworks = json.putObject("by_framework");
    byFramework.forEach((framework, tally) -> tally.write(frameworks.putObject(framework)));
    return json.toString();
  }

  @Override
  public synchronized void getMetrics(MetricsCollector collector, boolean all) {
    upToNow();
    MetricsRecordBuilder record = collector.addRecord("TreadleAgreement");
    total.write(record);
    record.addCounter(Interns.info("StockPlacements", "Containers placed by the stock scheduler"),
        stockPlacements.sum());
    byQueue.forEach((queue, tally) -> tally.write(collector.addRecord("TreadleAgreementByQueue")
        .tag(Interns.info("Queue", "A queue's path"), label(queue))));
  }

  /** The name of a queue, which may be an application's, in characters that need no escape in a label of Prometheus. */
  private static String label(String queue) {
    return Printable.line(queue).replace('"', '_').replace('\\', '_');
  }
}

package io.treadle.shim.commit;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.Printable;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
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
 * Compares what an engine would do with what the stock scheduler then does (observe_only). A would-be placement and a
 * stock one belong together if they are of the same application and request key and no more than a window apart;
 * docs/observe.md says how each is counted. Memory is bounded: of too many request keys the one proposed for first is
 * forgotten.
 */
public final class Observer implements MetricsSource {
  /** How long the stock scheduler gets to make a placement that was proposed, milliseconds. */
  public static final long DEFAULT_WINDOW_MS = 1000;

  private static final int MOST_REQUESTS = 20_000;
  private static final int MOST_NAMES = 1000;
  private static final int MOST_UNREAD = 100_000;
  private static final String OTHERS = "(others)";

  private final SchedulerPort port;
  private final long windowMs;
  /** When counting began, by the wall clock: administrators read it. */
  private final long sinceMs;
  private final Map<Ask, WouldBe> open = new LinkedHashMap<>();
  private final AtomicLongArray fates = new AtomicLongArray(Fate.values().length);
  private final LongAdder proposals = new LongAdder();
  private final LongAdder stockPlacements = new LongAdder();
  private final LongAdder forgotten = new LongAdder();
  private final Agreement total = new Agreement();
  private final Map<String, Agreement> byQueue = new ConcurrentSkipListMap<>();
  private final Map<String, Agreement> byFramework = new ConcurrentSkipListMap<>();
  /** What the stock scheduler placed and nobody has compared yet. */
  private final Queue<Placed> unread = new ConcurrentLinkedQueue<>();
  private final AtomicInteger unreadSize = new AtomicInteger();
  private long answers;
  private long expiredMs;

  /**
   * Makes an observer that has seen nothing.
   *
   * @param windowMs how long the stock scheduler gets to make a placement that was proposed, milliseconds
   * @param nowMs the time now; all times are of one clock, milliseconds
   */
  public Observer(SchedulerPort port, long windowMs, long nowMs) {
    this.port = port;
    this.windowMs = windowMs;
    this.sinceMs = Time.now();
    this.expiredMs = nowMs;
  }

  /** Takes in an answer and what {@link Committer#judge} said of it. Link thread. */
  public synchronized void judged(ProposalFrame answer, CommitResult result, Directory directory, long nowMs) {
    readPlaced();
    answers++;
    proposals.add(result.size());
    for (Fate fate : Fate.values()) {
      fates.addAndGet(fate.ordinal(), result.count(fate));
    }
    for (int position = 0; position < result.size(); position++) {
      if (result.fate(position) == Fate.OBSERVED) {
        int application = answer.application(position);
        propose(directory.application(application),
            directory.requestKey(application, answer.requestKey(position)),
            directory.node(answer.node(position)), nowMs);
      }
    }
    expire(nowMs);
  }

  private void propose(ApplicationAttemptId attempt, SchedulerRequestKey key, NodeId node, long nowMs) {
    if (attempt == null || node == null) {
      return;
    }
    Ask request = new Ask(attempt, key);
    WouldBe wouldBe = open.get(request);
    if (wouldBe == null) {
      FiCaSchedulerApp app = port.scheduler().getApplicationAttempt(attempt);
      if (app == null) {
        return;
      }
      if (open.size() >= MOST_REQUESTS) {
        open.remove(open.keySet().iterator().next());
        forgotten.increment();
      }
      wouldBe = new WouldBe(((CSQueue) app.getQueue()).getQueuePath(), framework(attempt));
      open.put(request, wouldBe);
    }
    wouldBe.propose(node, answers, nowMs);
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
    unread.add(new Placed(((CSQueue) app.getQueue()).getQueuePath(), app.getApplicationAttemptId(),
        new Ask(app.getApplicationAttemptId(), key), node));
  }

  private synchronized void readPlaced() {
    for (Placed placed = unread.poll(); placed != null; placed = unread.poll()) {
      unreadSize.decrementAndGet();
      WouldBe wouldBe = open.get(placed.ask);
      if (wouldBe == null) {
        wouldBe = new WouldBe(placed.queue, framework(placed.attempt));
      }
      wouldBe.placed(placed.node, tallies(wouldBe));
    }
  }

  /** Counts what the stock scheduler has had time enough for. Does little if called often. */
  public synchronized void expire(long nowMs) {
    readPlaced();
    if (nowMs - expiredMs < windowMs / 10) {
      return;
    }
    expiredMs = nowMs;
    open.values().removeIf(wouldBe -> wouldBe.expire(nowMs, windowMs, tallies(wouldBe)));
  }

  private Agreement[] tallies(WouldBe wouldBe) {
    return new Agreement[] {total, named(byQueue, wouldBe.queue), named(byFramework, wouldBe.framework)};
  }

  private static Agreement named(Map<String, Agreement> tallies, String name) {
    Agreement tally = tallies.get(name);
    if (tally != null) {
      return tally;
    }
    String kept = tallies.size() < MOST_NAMES ? name : OTHERS;
    return tallies.computeIfAbsent(kept, any -> new Agreement());
  }

  private String framework(ApplicationAttemptId attempt) {
    RMApp app = port.rmContext().getRMApps().get(attempt.getApplicationId());
    String type = app == null ? null : app.getApplicationType();
    return type == null || type.isEmpty() ? "YARN" : type;
  }

  /** All of it as a JSON object, as in docs/observe.md. */
  public String json() {
    readPlaced();
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    json.put("since_ms", sinceMs).put("window_ms", windowMs).put("proposals", proposals.sum())
        .put("would_commit", fates.get(Fate.OBSERVED.ordinal()));
    ObjectNode rejected = json.putObject("would_reject");
    for (Fate fate : Fate.values()) {
      long count = fates.get(fate.ordinal());
      if (fate.isRejection() && count > 0) {
        rejected.put(fate.toString(), count);
      }
    }
    json.put("stock_placements", stockPlacements.sum()).put("forgotten", forgotten.sum());
    total.write(json.putObject("total"));
    ObjectNode queues = json.putObject("by_queue");
    byQueue.forEach((queue, tally) -> tally.write(queues.putObject(queue)));
    ObjectNode frameworks = json.putObject("by_framework");
    byFramework.forEach((framework, tally) -> tally.write(frameworks.putObject(framework)));
    return json.toString();
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    readPlaced();
    tally(collector.addRecord("TreadleAgreement"), total)
        .addCounter(Interns.info("Proposals", "Proposals judged"), proposals.sum())
        .addCounter(Interns.info("WouldCommit", "Proposals that would be committed"),
            fates.get(Fate.OBSERVED.ordinal()))
        .addCounter(Interns.info("StockPlacements", "Containers placed by the stock scheduler"), stockPlacements.sum());
    byQueue.forEach((queue, tally) -> tally(collector.addRecord("TreadleAgreementByQueue")
        .tag(Interns.info("Queue", "A queue's path"), label(queue)), tally));
  }

  /** The name of a queue, which may be an application's, in characters that need no escape in a label of Prometheus. */
  private static String label(String queue) {
    return Printable.line(queue).replace('"', '_').replace('\\', '_');
  }

  private static MetricsRecordBuilder tally(MetricsRecordBuilder record, Agreement tally) {
    return record.setContext("yarn")
        .addCounter(Interns.info("Agreed", "Placed by stock where Treadle would have"), tally.agreed.sum())
        .addCounter(Interns.info("OtherNode", "Placed by stock on another node"), tally.otherNode.sum())
        .addCounter(Interns.info("TreadleOnly", "Not placed by stock within the window"), tally.treadleOnly.sum())
        .addCounter(Interns.info("StockOnly", "Placed by stock, not proposed"), tally.stockOnly.sum());
  }

  /** A placement by the stock scheduler. */
  private static final class Placed {
    private final String queue;
    private final ApplicationAttemptId attempt;
    private final Ask ask;
    private final NodeId node;

    Placed(String queue, ApplicationAttemptId attempt, Ask ask, NodeId node) {
      this.queue = queue;
      this.attempt = attempt;
      this.ask = ask;
      this.node = node;
    }
  }
}

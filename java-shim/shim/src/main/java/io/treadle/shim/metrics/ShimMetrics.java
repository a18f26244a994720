package io.treadle.shim.metrics;

import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.ApplicationId;

/**
 * What Treadle counts, for one scheduler. {@link MetricsExport} shows it. Any thread counts; the texts are the latest
 * ones.
 */
public final class ShimMetrics {
  private static final int TEXT_CHARACTERS = 1000;
  /** Of several engines the highest is shown; these are true of the scheduler: the first engine's; the rest is summed. */
  private static final List<String> HIGHEST =
      Arrays.asList("LeaseHeld", "ModeEnforce", "Starving", "DecideP50Us", "DecideP99Us", "CommitWaitP99Us",
          "WaitMeanMs", "WaitP50Ms", "WaitP99Ms", "SinceMs");
  /** What one of several engines measures of itself, as its status has it. */
  private static final List<String> FIGURES =
      Arrays.asList("Attempts", "Retries", "TooLarge", "WaitMeanMs", "WaitP50Ms", "WaitP99Ms");
  private static final List<String> SCHEDULERS = Arrays.asList("PlacedNatively", "Escapes");

  private final LongAdder frames = new LongAdder();
  private final LongAdder frameBytes = new LongAdder();
  private final LongAdder replyBytes = new LongAdder();
  private final LongAdder proposals = new LongAdder();
  private final LongAdder placedNatively = new LongAdder();
  private final LongAdder commitWallNanos = new LongAdder();
  private final LongAdder commitCpuNanos = new LongAdder();
  private final LongAdder linkCpuNanos = new LongAdder();
  private final LongAdder frameNanos = new LongAdder();
  private final LongAdder answerWaitNanos = new LongAdder();
  private final LongAdder sidecarStarts = new LongAdder();
  private final LongAdder linkFailures = new LongAdder();
  private final LongAdder usefulMicros = new LongAdder();
  private final LongAdder wastedMicros = new LongAdder();
  private final LongAdder emptyMicros = new LongAdder();
  private final long sinceNanos = System.nanoTime();
  private final AtomicLongArray fates = new AtomicLongArray(Fate.values().length);
  private final LatencyHistogram decideMicros = new LatencyHistogram();
  private final LatencyHistogram turnMicros = new LatencyHistogram();
  private final LongAdder takenBack = new LongAdder();
  private final LongAdder transactions = new LongAdder();
  private final LongAdder conflicts = new LongAdder();
  private final LongAdder givenUp = new LongAdder();
  private volatile Map<String, Long> figures = Collections.emptyMap();
  private final PlacementCounts placements = new PlacementCounts();
  private final Map<String, LongSupplier> gauges = new LinkedHashMap<>();
  private volatile String mode = "";
  private final Troubles troubles = new Troubles(System::currentTimeMillis);
  private volatile String policy = "";
  private volatile String learned = "";
  private volatile String waitsFor = "";
  private volatile String warnings = "";
  private volatile String ignored = "";
  private volatile String refusal = "";
  private volatile Supplier<String> unkept = () -> "";

  /**
   * Metrics that start at zero.
   *
   * @param leaseHeld whether an engine holds the lease now
   * @param leaseFlips how often it was taken or lost
   * @param snapshots how many snapshots were written
   * @param escapes how many throwables of ours the scheduler's overrides caught
   */
  public ShimMetrics(BooleanSupplier leaseHeld, LongSupplier leaseFlips, LongSupplier snapshots, LongSupplier escapes) {
    gauges.put("LeaseHeld", () -> leaseHeld.getAsBoolean() ? 1 : 0);
    gauges.put("LeaseFlips", leaseFlips);
    gauges.put("ModeEnforce", () -> "enforce".equals(mode) ? 1 : 0);
    gauges.put("Frames", frames::sum);
    gauges.put("FrameBytes", frameBytes::sum);
    gauges.put("ReplyBytes", replyBytes::sum);
    gauges.put("Proposals", proposals::sum);
    gauges.put("Committed", () -> fates.get(Fate.COMMITTED.code()));
    gauges.put("Observed", () -> fates.get(Fate.OBSERVED.code()));
    gauges.put("Rejected", this::rejected);
    for (Fate fate : Fate.values()) {
      if (fate.isRejection()) {
        gauges.put("Rejected" + camelCase(fate), () -> fates.get(fate.code()));
      }
    }
    gauges.put("PlacedNatively", placedNatively::sum);
    gauges.put("DecideP50Us", () -> decideMicros.quantile(0.50));
    gauges.put("DecideP99Us", () -> decideMicros.quantile(0.99));
    gauges.put("DecisionUsefulMs", () -> usefulMicros.sum() / 1000);
    gauges.put("DecisionWastedMs", () -> wastedMicros.sum() / 1000);
    gauges.put("DecisionEmptyMs", () -> emptyMicros.sum() / 1000);
    gauges.put("Transactions", transactions::sum);
    gauges.put("Conflicts", conflicts::sum);
    gauges.put("GivenUp", givenUp::sum);
    for (String name : FIGURES) {
      gauges.put(name, () -> figures.getOrDefault(name, 0L));
    }
    gauges.put("CommitWaitP99Us", () -> turnMicros.quantile(0.99));
    gauges.put("TransactionsTakenBack", takenBack::sum);
    gauges.put("SinceMs", () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sinceNanos));
    gauges.put("CommitWallNanos", commitWallNanos::sum);
    gauges.put("CommitCpuNanos", commitCpuNanos::sum);
    gauges.put("LinkCpuNanos", linkCpuNanos::sum);
    gauges.put("FrameNanos", frameNanos::sum);
    gauges.put("AnswerWaitNanos", answerWaitNanos::sum);
    gauges.put("Snapshots", snapshots);
    gauges.put("SidecarStarts", sidecarStarts::sum);
    gauges.put("LinkFailures", linkFailures::sum);
    gauges.put("Escapes", escapes);
  }

  private long rejected() {
    long sum = 0;
    for (Fate fate : Fate.values()) {
      sum += fate.isRejection() ? fates.get(fate.code()) : 0;
    }
    return sum;
  }

  /** {@code NODE_FULL} as {@code NodeFull}. */
  static String camelCase(Fate fate) {
    StringBuilder text = new StringBuilder();
    for (String word : fate.name().split("_")) {
      text.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
    }
    return text.toString();
  }

  /** All numbers now, by name, always the same names in the same order. */
  public Map<String, Long> numbers() {
    Map<String, Long> values = new LinkedHashMap<>();
    gauges.forEach((name, value) -> values.put(name, value.getAsLong()));
    return values;
  }

  /** Those numbers that only grow, and are this engine's own. */
  Map<String, Long> counters() {
    Map<String, Long> values = numbers();
    values.keySet().removeIf(name -> HIGHEST.contains(name) || FIGURES.contains(name) || SCHEDULERS.contains(name)
        || name.equals("Schedules"));
    return values;
  }

  /** The numbers of several engines as those of one. */
  static Map<String, Long> together(Collection<ShimMetrics> engines) {
    Map<String, Long> values = new LinkedHashMap<>();
    for (ShimMetrics engine : engines) {
      engine.numbers().forEach((name, value) -> values.merge(name, value,
          SCHEDULERS.contains(name) ? (a, b) -> a : HIGHEST.contains(name) ? Math::max : Long::sum));
    }
    return values;
  }

  /** All texts now, by name. */
  public Map<String, String> texts() {
    Map<String, String> values = new LinkedHashMap<>();
    values.put("Mode", mode);
    values.put("LastError", troubles.text());
    values.put("LastErrorTime", troubles.time());
    values.put("Policy", policy);
    values.put("Learned", learned);
    values.put("WaitsFor", waitsFor);
    values.put("Warnings", warnings);
    values.put("Refusal", refusal);
    values.put("IgnoredSettings", ignored);
    values.put("RequirementsUnkept", bounded(unkept.get()));
    return values;
  }

  /** How often the engine took how long to answer, in microseconds: two readings give quantiles of what was between. */
  String decideCounts() {
    return decideMicros.counts();
  }

  /** Notes how long it took to write frames, nanoseconds. */
  public void framesWritten(long nanos) {
    frameNanos.add(nanos);
  }

  /** The link thread did nothing but wait for an answer for so many nanoseconds. */
  public void waited(long nanos) {
    answerWaitNanos.add(nanos);
  }

  /** A frame was answered; bytes of both, and nanoseconds from one to the other. */
  public void answered(int bytesSent, int bytesReceived, long nanos) {
    frames.increment();
    frameBytes.add(bytesSent);
    replyBytes.add(bytesReceived);
    decideMicros.add(nanos / 1000);
  }

  /** Notes how many proposals an answer held. */
  public void proposed(int count) {
    proposals.add(count);
  }

  /** Notes how long an engine has decided, microseconds, and how many of its proposals were committed. */
  public void decided(long micros, int proposed, int committed) {
    (committed > 0 ? usefulMicros : proposed > 0 ? wastedMicros : emptyMicros).add(micros);
  }

  /**
   * The outcomes of an answer's transactions, of one of several engines, and how the decision time was spent.
   *
   * @param succeeded how many got something, with no conflict
   * @param conflicted how many others stood in the way of
   * @param empty how many got nothing, and nobody stood in the way of
   */
  public void transactions(int succeeded, int conflicted, int empty, long micros) {
    transactions.add(succeeded);
    conflicts.add(conflicted);
    int all = Math.max(1, succeeded + conflicted + empty);
    long useful = micros * succeeded / all;
    long wasted = micros * conflicted / all;
    usefulMicros.add(useful);
    wastedMicros.add(wasted);
    emptyMicros.add(micros - useful - wasted);
  }

  /** The engine has given an application up, and another serves it. */
  public void gaveUp() {
    givenUp.increment();
  }

  /** What the engine measures of itself. */
  public void figures(Map<String, Long> shown) {
    figures = shown;
  }

  /** One of several engines has waited so long for its turn to commit. */
  public void waitedToCommit(long nanos) {
    turnMicros.add(nanos / 1000);
  }

  /** A transaction was committed in part and taken back. */
  public void transactionTakenBack() {
    takenBack.increment();
  }

  /** The fate of a proposal. */
  public void fate(Fate fate) {
    fates.incrementAndGet(fate.code());
  }

  /** A container was placed. */
  public void placed(ApplicationId application, boolean byTreadle) {
    if (!byTreadle) {
      placedNatively.increment();
    }
    placements.add(application, byTreadle);
  }

  /** Notes how long it took to commit or turn down an answer's proposals, nanoseconds. */
  public void committed(long wallNanos, long cpuNanos) {
    commitWallNanos.add(wallNanos);
    commitCpuNanos.add(cpuNanos);
  }

  /** The link's threads used so much CPU for a tick. */
  public void ticked(long cpuNanos) {
    linkCpuNanos.add(cpuNanos);
  }

  /** A sidecar was started. */
  public void sidecarStarted() {
    sidecarStarts.increment();
  }

  /** Talking to the engine failed. */
  public void linkFailed(String reason) {
    linkFailures.increment();
    troubles.note(Troubles.Kind.LINK, reason);
  }

  /** What goes wrong; the latest of what is not mended is shown. */
  public Troubles troubles() {
    return troubles;
  }

  /** The mode as in yarn-site.xml. */
  public void mode(String text) {
    mode = text;
  }

  /** The policy's name, as the engine reports it. */
  public void policy(String text) {
    policy = bounded(text);
  }

  /** What the engine knows of the jobs that run, as it reports it. */
  public void learned(String text) {
    learned = bounded(text);
  }

  /** What the engine waits for on purpose, as it reports it. */
  public void waitsFor(String text) {
    waitsFor = bounded(text);
  }

  /** What an administrator should know, as the engine reports it. */
  public void warnings(List<String> texts) {
    warnings = bounded(String.join("; ", texts));
  }

  /** What is set in yarn-site.xml and does nothing. */
  public void ignored(String text) {
    ignored = bounded(text);
  }

  /** Shows another number. Only before the metrics are shown. */
  public void gauge(String name, LongSupplier value) {
    gauges.put(name, value);
  }

  /** Asked whose requirements of nodes the stock scheduler would not keep to. */
  public void unkept(Supplier<String> text) {
    unkept = text;
  }

  /** Why nothing is committed although the mode is enforce; null if it is. */
  public void refusal(String text) {
    refusal = text == null ? "" : bounded(text);
  }

  /** Containers by application. */
  public PlacementCounts placements() {
    return placements;
  }

  private static String bounded(String text) {
    return text.length() <= TEXT_CHARACTERS ? text : text.substring(0, TEXT_CHARACTERS);
  }
}

package io.treadle.shim.metrics;

import io.treadle.shim.Printable;
import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
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
  /** What only grows; its name in beans and records is {@code FrameBytes} for {@link #FRAME_BYTES}. */
  public enum Counter {
    /** Frames that were answered, their bytes and those of the answers. */
    FRAMES, FRAME_BYTES, REPLY_BYTES,
    /** Proposals in answers. */
    PROPOSALS,
    /** Containers that the stock scheduler placed. */
    PLACED_NATIVELY,
    /** Transactions that were committed in part and taken back. */
    TRANSACTIONS_TAKEN_BACK,
    /** How long it took to commit or turn down proposals. */
    COMMIT_WALL_NANOS, COMMIT_CPU_NANOS,
    /** The CPU time of the link's threads in ticks. */
    LINK_CPU_NANOS,
    /** How long it took to write frames. */
    FRAME_NANOS,
    /** How long the link thread did nothing but wait for an answer. */
    ANSWER_WAIT_NANOS,
    /** Sidecars that were started. */
    SIDECAR_STARTS,
    /** How often talking to the engine failed. */
    LINK_FAILURES
  }

  /** What is shown as a text, the latest one; its name is {@code WaitsFor} for {@link #WAITS_FOR}. */
  public enum Text {
    /** The mode as in yarn-site.xml. */
    MODE,
    /** The policy's name, as the engine reports it. */
    POLICY,
    /** What the engine knows of the jobs that run. */
    LEARNED,
    /** What the engine waits for on purpose. */
    WAITS_FOR,
    /** What an administrator should know, as the engine reports it. */
    WARNINGS,
    /** Why nothing is committed although the mode is enforce. */
    REFUSAL,
    /** What is set in yarn-site.xml and does nothing. */
    IGNORED_SETTINGS,
    /** A JSON object about several engines, as their sidecar writes it; empty for one. */
    ENGINES
  }

  private final LongAdder[] counts = new LongAdder[Counter.values().length];
  private final long sinceNanos = System.nanoTime();
  private final LongAdder usefulMicros = new LongAdder();
  private final LongAdder wastedMicros = new LongAdder();
  private final LongAdder emptyMicros = new LongAdder();
  private final AtomicLongArray fates = new AtomicLongArray(Fate.values().length);
  private final LatencyHistogram decideMicros = new LatencyHistogram();
  private final PlacementCounts placements = new PlacementCounts();
  private final Map<String, LongSupplier> gauges = new LinkedHashMap<>();
  private final Map<Text, String> texts = new ConcurrentHashMap<>();
  private final Map<String, Supplier<String>> textsByName = new LinkedHashMap<>();
  private final Troubles troubles = new Troubles(System::currentTimeMillis);
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
    Arrays.setAll(counts, i -> new LongAdder());
    gauges.put("LeaseHeld", () -> leaseHeld.getAsBoolean() ? 1 : 0);
    gauges.put("LeaseFlips", leaseFlips);
    gauges.put("ModeEnforce", () -> "enforce".equals(texts.get(Text.MODE)) ? 1 : 0);
    for (Counter counter : Counter.values()) {
      gauges.put(camelCase(counter), counts[counter.ordinal()]::sum);
    }
    gauges.put("Committed", () -> fates.get(Fate.COMMITTED.code()));
    gauges.put("Observed", () -> fates.get(Fate.OBSERVED.code()));
    gauges.put("Rejected", this::rejected);
    for (Fate fate : Fate.values()) {
      if (fate.isRejection() && !fate.isOfSeveralEngines()) {
        gauges.put("Rejected" + camelCase(fate), () -> fates.get(fate.code()));
      }
    }
    gauges.put("DecideP50Us", () -> decideMicros.quantile(0.50));
    gauges.put("DecideP99Us", () -> decideMicros.quantile(0.99));
    gauges.put("DecisionUsefulMs", () -> usefulMicros.sum() / 1000);
    gauges.put("DecisionWastedMs", () -> wastedMicros.sum() / 1000);
    gauges.put("DecisionEmptyMs", () -> emptyMicros.sum() / 1000);
    gauges.put("SinceMs", () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sinceNanos));
    gauges.put("Snapshots", snapshots);
    gauges.put("Escapes", escapes);
    for (Text text : Text.values()) {
      textsByName.put(camelCase(text), () -> texts.getOrDefault(text, ""));
    }
    textsByName.put("LastError", troubles::text);
    textsByName.put("LastErrorTime", troubles::time);
    textsByName.put("RequirementsUnkept", () -> Printable.brief(unkept.get()));
    textsByName.put("DecideCounts", decideMicros::counts);
  }

  private long rejected() {
    long sum = 0;
    for (Fate fate : Fate.values()) {
      sum += fate.isRejection() ? fates.get(fate.code()) : 0;
    }
    return sum;
  }

  /** {@code NODE_FULL} as {@code NodeFull}. */
  public static String camelCase(Enum<?> constant) {
    StringBuilder text = new StringBuilder();
    for (String word : constant.name().split("_")) {
      text.append(word.charAt(0)).append(word.substring(1).toLowerCase(Locale.ROOT));
    }
    return text.toString();
  }

  /** By name, always the same names in the same order. */
  Map<String, LongSupplier> numberSuppliers() {
    return gauges;
  }

  /** By name, always the same names in the same order. */
  Map<String, Supplier<String>> textSuppliers() {
    return textsByName;
  }

  /** One number now. */
  public long number(String name) {
    return gauges.get(name).getAsLong();
  }

  /** One text now. */
  public String text(String name) {
    return textsByName.get(name).get();
  }

  /** All numbers now. */
  public Map<String, Long> numbers() {
    Map<String, Long> values = new LinkedHashMap<>();
    gauges.forEach((name, value) -> values.put(name, value.getAsLong()));
    return values;
  }

  /** Counts so much more. */
  public void add(Counter counter, long amount) {
    counts[counter.ordinal()].add(amount);
  }

  /** Shows another text; null is an empty one. All but {@link Text#ENGINES} are cut to a line of 1,000 characters. */
  public void show(Text text, String shown) {
    texts.put(text, shown == null ? "" : text == Text.ENGINES ? Printable.line(shown) : Printable.brief(shown));
  }

  /** A frame was answered; bytes of both, and nanoseconds from one to the other. */
  public void answered(int bytesSent, int bytesReceived, long nanos) {
    add(Counter.FRAMES, 1);
    add(Counter.FRAME_BYTES, bytesSent);
    add(Counter.REPLY_BYTES, bytesReceived);
    decideMicros.add(nanos / 1000);
  }

  /** Notes how long an engine has decided, microseconds, and how many of its proposals were committed. */
  public void decided(long micros, int proposed, int committed) {
    (committed > 0 ? usefulMicros : proposed > 0 ? wastedMicros : emptyMicros).add(micros);
  }

  /** The fate of a proposal. */
  public void fate(Fate fate) {
    fates.incrementAndGet(fate.code());
  }

  /** A container was placed. */
  public void placed(ApplicationId application, boolean byTreadle) {
    if (!byTreadle) {
      add(Counter.PLACED_NATIVELY, 1);
    }
    placements.add(application, byTreadle);
  }

  /** Notes how long it took to commit or turn down an answer's proposals, nanoseconds. */
  public void committed(long wallNanos, long cpuNanos) {
    add(Counter.COMMIT_WALL_NANOS, wallNanos);
    add(Counter.COMMIT_CPU_NANOS, cpuNanos);
  }

  /** Talking to the engine failed. */
  public void linkFailed(String reason) {
    add(Counter.LINK_FAILURES, 1);
    troubles.note(Troubles.Kind.LINK, reason);
  }

  /** What goes wrong; the latest of what is not mended is shown. */
  public Troubles troubles() {
    return troubles;
  }

  /** Shows another number. Only before the metrics are shown. */
  public void gauge(String name, LongSupplier value) {
    gauges.put(name, value);
  }

  /** Asked whose requirements of nodes the stock scheduler would not keep to. */
  public void unkept(Supplier<String> text) {
    unkept = text;
  }

  /** Containers by application. */
  public PlacementCounts placements() {
    return placements;
  }
}

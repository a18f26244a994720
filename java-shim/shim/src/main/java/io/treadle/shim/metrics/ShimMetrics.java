// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.Printable;
import io.treadle.shim.wire.Fate;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.Interns;
import org.apache.hadoop.metrics2.lib.MetricsRegistry;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.apache.hadoop.metrics2.lib.MutableQuantiles;
import org.apache.hadoop.metrics2.util.MBeans;
import org.apache.hadoop.metrics2.util.Quantile;
import org.apache.hadoop.thirdparty.com.google.common.base.CaseFormat;
import org.apache.hadoop.yarn.api.records.ApplicationId;

/**
 * What Treadle counts, for one scheduler; shown as a metrics2 source (numbers: sinks, {@code /prom}) and as a bean
 * (numbers and texts: {@code /jmx}). Any thread counts; the texts are the latest ones.
 *
 * <p>metrics2 gets no text: its Prometheus sink escapes nothing, so one quote would make the whole page of the RM
 * unreadable, and each new text would be a new series of every number. The bean {@code Treadle} reads when asked, while
 * metrics2's own bean is up to a period, 10 seconds, old. A JVM has room for one scheduler's: the one that started last
 * (with high availability a standby's is not started).
 */
public final class ShimMetrics implements MetricsSource, TreadleMXBean {
  /** What only grows; the name of {@link #FRAME_BYTES} is {@code FrameBytes}. */
  public enum Counter {
    FRAMES("Frames that were answered"),
    FRAME_BYTES("Bytes of frames that were answered"),
    REPLY_BYTES("Bytes of answers"),
    PROPOSALS("Proposals in answers"),
    PLACED_BY_CAPACITY_SCHEDULER("Containers that the stock scheduler placed"),
    TRANSACTIONS_TAKEN_BACK("Transactions that were committed in part and taken back"),
    PLACED_FOR_NEGLECTED("Containers for requests that the engine left waiting next to idle room"),
    COMMIT_WALL_NANOS("Time to commit or turn down proposals"),
    COMMIT_CPU_NANOS("CPU time to commit or turn down proposals"),
    LINK_CPU_NANOS("CPU time of the link's thread in ticks"),
    FRAME_NANOS("Time to write frames"),
    ANSWER_WAIT_NANOS("Time in which the link's thread only waited for an answer"),
    SIDECAR_STARTS("Sidecars that were started"),
    LINK_FAILURES("How often talking to the engine failed");

    private final String text;

    Counter(String text) {
      this.text = text;
    }
  }

  /** Texts in the bean, latest values; the attribute's name is {@code WaitsFor} for {@link #WAITS_FOR}. */
  public enum Text {
    /** The mode as in yarn-site.xml. */
    MODE,
    /** The policy's name, as the engine reports it. */
    POLICY,
    /** The engine's information about the running jobs. */
    LEARNED,
    /** Why the engine deliberately waits. */
    WAITS_FOR,
    /** What an administrator should know, as the engine reports it. */
    WARNINGS,
    /** Why nothing is committed although the mode is enforce. */
    REFUSAL,
    /** Settings in yarn-site.xml without effect. */
    IGNORED_SETTINGS,
    /** A JSON object about several engines, as their sidecar writes it; empty for one. */
    ENGINES
  }

  /** The name of metrics2's own bean; its record is called {@value #RECORD}. */
  private static final String SOURCE = "TreadleMetrics";
  private static final String RECORD = "Treadle";
  /** Long enough for some frames on an idle cluster, short enough for alerts to end with their cause. */
  private static final int WINDOW_S = 10;

  /** The applications whose placements are counted: those that got their first container last. */
  static final int APPLICATIONS = 1000;

  private static ShimMetrics shown;

  private final MetricsRegistry registry = new MetricsRegistry(RECORD).setContext("yarn");
  private final Map<Counter, MutableCounterLong> counters = new EnumMap<>(Counter.class);
  private final Map<Fate, MutableCounterLong> fates = new EnumMap<>(Fate.class);
  private final MutableCounterLong rejected;
  private final long sinceNanos = System.nanoTime();
  private final DecideTimes decideMicros = new DecideTimes(WINDOW_S);
  /** By application: how many containers Treadle placed, and how many anyone else. */
  private final Map<ApplicationId, long[]> placements = new LinkedHashMap<ApplicationId, long[]>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<ApplicationId, long[]> eldest) {
      return size() > APPLICATIONS;
    }
  };
  /** Counters and gauges. */
  private final Map<String, LongSupplier> numbers = new LinkedHashMap<>();
  private final Map<Text, String> texts = new ConcurrentHashMap<>();
  private final Map<String, Supplier<String>> textsByName = new LinkedHashMap<>();
  /** Current problems; the latest unresolved one is shown. */
  public final Troubles troubles = new Troubles(System::currentTimeMillis);
  private ObjectName bean;

  /** Metrics that start at zero; {@link #gauge} adds what others count. */
  public ShimMetrics() {
    gauge("ModeEnforce", () -> "enforce".equals(texts.get(Text.MODE)) ? 1 : 0);
    for (Counter counter : Counter.values()) {
      counters.put(counter, counter(camelCase(counter), counter.text));
    }
    rejected = counter("Rejected", "Proposals that were rejected");
    for (Fate fate : Fate.values()) {
      fates.put(fate, counter((fate.isRejection() ? "Rejected" : "") + camelCase(fate), "Proposals of this fate"));
    }
    gauge("DecideP50Us", decideMicros::p50);
    gauge("DecideP99Us", decideMicros::p99);
    gauge("SinceMs", () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - sinceNanos));
    for (Text text : Text.values()) {
      textsByName.put(camelCase(text), () -> texts.getOrDefault(text, ""));
    }
    textsByName.put("LastError", troubles::text);
    textsByName.put("LastErrorTime", troubles::time);
  }

  private MutableCounterLong counter(String name, String text) {
    MutableCounterLong counter = registry.newCounter(name, text, 0L);
    numbers.put(name, counter::value);
    return counter;
  }

  /** Shows them, in place of another scheduler's in this JVM. */
  public void start() {
    synchronized (ShimMetrics.class) {
      if (shown != null) {
        shown.hide();
      }
      shown = this;
      DefaultMetricsSystem.instance().register(SOURCE, "Decisions made outside of the ResourceManager", this);
      bean = MBeans.register("ResourceManager", RECORD, this);
    }
  }

  /** Shows them no longer, and measures nothing any more. */
  public void stop() {
    synchronized (ShimMetrics.class) {
      if (shown == this) {
        shown = null;
        hide();
      }
    }
    decideMicros.stop();
  }

  private void hide() {
    DefaultMetricsSystem.instance().unregisterSource(SOURCE);
    MBeans.unregister(bean);
  }

  @Override
  public String getPlacements() {
    // texts are made of a copy: a thread that counts may hold the scheduler's lock
    Map<ApplicationId, long[]> copy = new LinkedHashMap<>();
    synchronized (placements) {
      placements.forEach((application, count) -> copy.put(application, count.clone()));
    }
    ObjectNode rows = JsonNodeFactory.instance.objectNode();
    copy.forEach((application, count) ->
        rows.putObject(application.toString()).put("treadle", count[0]).put("native", count[1]));
    return rows.toString();
  }

  /** What only grows as counters, all other numbers as gauges. */
  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    MetricsRecordBuilder record = collector.addRecord(RECORD);
    registry.snapshot(record, all);
    numbers.forEach((name, value) -> {
      if (registry.get(name) == null) {
        record.addGauge(Interns.info(name, name), value.getAsLong());
      }
    });
  }

  /** {@code NODE_FULL} as {@code NodeFull}. */
  private static String camelCase(Enum<?> constant) {
    return CaseFormat.UPPER_UNDERSCORE.to(CaseFormat.UPPER_CAMEL, constant.name());
  }

  /** One text now. */
  public String text(String name) {
    return textsByName.get(name).get();
  }

  /** All numbers now. */
  public Map<String, Long> numbers() {
    Map<String, Long> values = new LinkedHashMap<>();
    numbers.forEach((name, value) -> values.put(name, value.getAsLong()));
    return values;
  }

  @Override
  public String getStatus() {
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    numbers().forEach((name, value) -> json.put(name, value));
    textsByName.forEach((name, text) -> json.put(name, text.get()));
    return json.toString();
  }

  /** Counts so much more. */
  public void add(Counter counter, long amount) {
    counters.get(counter).incr(amount);
  }

  /** Shows another text; null is an empty one. All but {@link Text#ENGINES} are cut to a line of 1,000 characters. */
  public void show(Text text, String shown) {
    String line = shown == null ? "" : shown;
    texts.put(text, text == Text.ENGINES ? Printable.line(line) : Printable.brief(line));
  }

  /** A frame was answered; bytes of both, and nanoseconds from one to the other. */
  public void answered(int bytesSent, int bytesReceived, long nanos) {
    add(Counter.FRAMES, 1);
    add(Counter.FRAME_BYTES, bytesSent);
    add(Counter.REPLY_BYTES, bytesReceived);
    decideMicros.add(nanos / 1000);
  }

  /** The fate of a proposal. */
  public void fate(Fate fate) {
    if (fate.isRejection()) {
      rejected.incr();
    }
    fates.get(fate).incr();
  }

  /** A container was placed. */
  public void placed(ApplicationId application, boolean byTreadle) {
    if (!byTreadle) {
      add(Counter.PLACED_BY_CAPACITY_SCHEDULER, 1);
    }
    synchronized (placements) {
      placements.computeIfAbsent(application, id -> new long[2])[byTreadle ? 0 : 1]++;
    }
  }

  /** Talking to the engine failed. */
  public void linkFailed(String reason) {
    add(Counter.LINK_FAILURES, 1);
    troubles.note(Troubles.Kind.LINK, reason);
  }

  /** Shows another number. Only before the metrics are shown. */
  public void gauge(String name, LongSupplier value) {
    numbers.put(name, value);
  }

  /** How long decisions took in the last window that is over, microseconds; 0 if there were none. Any thread. */
  static class DecideTimes extends MutableQuantiles {
    // as the estimator has them: a share and by how much it may be off
    private static final Quantile HALF = new Quantile(0.50, 0.050);
    private static final Quantile NEARLY_ALL = new Quantile(0.99, 0.001);

    /** Windows of so many seconds, until {@link #stop}. */
    DecideTimes(int windowS) {
      super("Decide", "Round trips to the engine", "Frames", "Us", windowS);
    }

    long p50() {
      return quantile(HALF);
    }

    long p99() {
      return quantile(NEARLY_ALL);
    }

    private synchronized long quantile(Quantile share) {
      return previousSnapshot == null ? 0 : previousSnapshot.get(share);
    }
  }
}

package io.treadle.shim.metrics;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.Interns;
import org.apache.hadoop.metrics2.util.MBeans;

/**
 * Shows the metrics of one scheduler: numbers as a metrics2 source (sinks, {@code /prom}), numbers and texts as beans
 * ({@code /jmx}). metrics2 gets no text: its Prometheus sink escapes nothing, so one quote would make the whole page of
 * the RM unreadable, and each new text would be a new series of every number. The bean {@code Treadle} reads when asked,
 * while metrics2's own beans are up to a period, 10 seconds, old. A JVM has room for one scheduler's: the one that
 * started last (with high availability a standby's is not started).
 */
public final class MetricsExport implements MetricsSource {
  /** The name of metrics2's own bean; its record is called {@value #RECORD}. */
  private static final String SOURCE = "TreadleMetrics";
  private static final String RECORD = "Treadle";
  private static final String SERVICE = "ResourceManager";
  /** Of several engines those of the first one that has any. */
  private static final List<String> FIRST_FOUND = Arrays.asList("LastError", "Warnings");

  private static MetricsExport shown;

  private final ShimMetrics metrics;
  private final ObservationMXBean observation;
  private final MetricsSource more;
  private final List<ObjectName> beans = new ArrayList<>();
  private final List<ObjectName> engineBeans = new ArrayList<>();
  /** By their names; empty if there is one engine only. */
  private volatile Map<String, ShimMetrics> engines = Collections.emptyMap();
  /** What engines had counted that the roster names no longer: counters of the scheduler never fall. */
  private volatile Map<String, Long> gone = Collections.emptyMap();
  private volatile BooleanSupplier enginesSchedule = () -> false;
  private EnginesMXBean owners;

  /**
   * Metrics that are not shown yet.
   *
   * @param observation what {@code observe_only} found, as a text
   * @param more further records for metrics2: the same as numbers
   */
  public MetricsExport(ShimMetrics metrics, ObservationMXBean observation, MetricsSource more) {
    this.metrics = metrics;
    this.observation = observation;
    this.more = more;
  }

  /** Shows them, in place of another scheduler's in this JVM. */
  public void start() {
    synchronized (MetricsExport.class) {
      if (shown != null) {
        shown.hide();
      }
      shown = this;
      DefaultMetricsSystem.instance().register(SOURCE, "Decisions made outside of the ResourceManager", this);
      bean(RECORD, new MetricsBean(numbers(), texts()), beans);
      bean("TreadlePlacements", metrics.placements(), beans);
      bean("TreadleObservation", observation, beans);
      showEngines();
    }
  }

  /**
   * Shows several engines, each as a bean {@code TreadleEngine-NAME}, and their sums.
   *
   * @param shownNow by their names, the first one in front; empty if there is one only
   * @param schedule whether they schedule, all together
   * @param ownersNow who serves what, as a text
   */
  public void engines(Map<String, ShimMetrics> shownNow, BooleanSupplier schedule, EnginesMXBean ownersNow) {
    synchronized (MetricsExport.class) {
      enginesSchedule = schedule;
      owners = ownersNow;
      Map<String, Long> counted = new LinkedHashMap<>(gone);
      for (ShimMetrics engine : engines.values()) {
        if (engine != metrics && !shownNow.containsValue(engine)) {
          engine.counters().forEach((name, value) -> counted.merge(name, value, Long::sum));
        }
      }
      gone = counted;
      engines = shownNow;
      if (shown == this) {
        hideEngines();
        showEngines();
      }
    }
  }

  private void showEngines() {
    engines.forEach((name, engine) -> bean("TreadleEngine-" + name,
        new MetricsBean(engine.numberSuppliers(), engine.textSuppliers()), engineBeans));
    if (!engines.isEmpty()) {
      bean("TreadleEngines", owners, engineBeans);
    }
  }

  private void hideEngines() {
    engineBeans.forEach(MBeans::unregister);
    engineBeans.clear();
  }

  private Map<String, LongSupplier> numbers() {
    Map<String, LongSupplier> numbers = new LinkedHashMap<>();
    metrics.numberSuppliers().keySet().forEach(name -> numbers.put(name, () -> number(name)));
    return numbers;
  }

  private long number(String name) {
    Map<String, ShimMetrics> now = engines;
    if (!now.isEmpty() && name.equals("Schedules")) {
      return enginesSchedule.getAsBoolean() ? 1 : 0;
    }
    long number = now.isEmpty() ? metrics.number(name) : ShimMetrics.together(now.values(), name);
    return number + gone.getOrDefault(name, 0L);
  }

  private Map<String, Supplier<String>> texts() {
    Map<String, Supplier<String>> texts = new LinkedHashMap<>();
    metrics.textSuppliers().keySet().forEach(name -> texts.put(name, () -> text(name)));
    return texts;
  }

  /** The first engine's, and of errors and warnings the first that there is. */
  private String text(String name) {
    String decides = name.equals("LastErrorTime") ? "LastError" : name;
    if (FIRST_FOUND.contains(decides) && metrics.text(decides).isEmpty()) {
      for (Map.Entry<String, ShimMetrics> engine : engines.entrySet()) {
        if (!engine.getValue().text(decides).isEmpty()) {
          String text = engine.getValue().text(name);
          return name.equals(decides) ? "engine " + engine.getKey() + ": " + text : text;
        }
      }
    }
    return metrics.text(name);
  }

  /** Shows them no longer. */
  public void stop() {
    synchronized (MetricsExport.class) {
      if (shown == this) {
        shown = null;
        hide();
      }
    }
  }

  private static void bean(String name, Object bean, List<ObjectName> to) {
    ObjectName registered = MBeans.register(SERVICE, name, bean);
    if (registered != null) {
      to.add(registered);
    }
  }

  private void hide() {
    DefaultMetricsSystem.instance().unregisterSource(SOURCE);
    beans.forEach(MBeans::unregister);
    beans.clear();
    hideEngines();
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    MetricsRecordBuilder record = collector.addRecord(RECORD).setContext("yarn");
    numbers().forEach((name, value) -> record.addGauge(Interns.info(name, name), value.getAsLong()));
    more.getMetrics(collector, all);
  }
}

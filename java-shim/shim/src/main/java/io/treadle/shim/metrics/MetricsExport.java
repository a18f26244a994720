package io.treadle.shim.metrics;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.Interns;
import org.apache.hadoop.metrics2.util.MBeans;

/**
 * Shows the metrics of one scheduler: as a metrics2 source (sinks, {@code /prom}) and as beans ({@code /jmx}). The bean
 * {@code Treadle} reads them when asked, while metrics2's own beans are up to a period, 10 seconds, old. A JVM has room
 * for one scheduler's: the one that started last (with high availability a standby's is not started).
 */
public final class MetricsExport implements MetricsSource {
  /** The name of metrics2's own bean; its record is called {@value #RECORD}. */
  private static final String SOURCE = "TreadleMetrics";
  private static final String RECORD = "Treadle";
  private static final String SERVICE = "ResourceManager";

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
      bean(RECORD, new MetricsBean(this::numbers, this::texts, metrics::decideCounts), beans);
      bean("TreadlePlacements", metrics.placements(), beans);
      bean("TreadleObservation", observation, beans);
      showEngines();
    }
  }

  /**
   * Shows several engines, each as a bean {@code TreadleEngine-NAME} and as a record, and their sums.
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
        new MetricsBean(engine::numbers, engine::texts, engine::decideCounts), engineBeans));
    if (!engines.isEmpty()) {
      bean("TreadleEngines", owners, engineBeans);
    }
  }

  private void hideEngines() {
    engineBeans.forEach(MBeans::unregister);
    engineBeans.clear();
  }

  private Map<String, Long> numbers() {
    Map<String, ShimMetrics> now = engines;
    Map<String, Long> sums = now.isEmpty() ? metrics.numbers() : ShimMetrics.together(now.values());
    gone.forEach((name, value) -> sums.merge(name, value, Long::sum));
    if (!now.isEmpty()) {
      sums.put("Schedules", enginesSchedule.getAsBoolean() ? 1L : 0L);
    }
    return sums;
  }

  /** The first engine's, and of errors and warnings the first that there is. */
  private Map<String, String> texts() {
    Map<String, String> texts = metrics.texts();
    engines.forEach((name, engine) -> {
      Map<String, String> own = engine.texts();
      if (texts.get("LastError").isEmpty() && !own.get("LastError").isEmpty()) {
        texts.put("LastError", "engine " + name + ": " + own.get("LastError"));
        texts.put("LastErrorTime", own.get("LastErrorTime"));
      }
      if (texts.get("Warnings").isEmpty() && !own.get("Warnings").isEmpty()) {
        texts.put("Warnings", "engine " + name + ": " + own.get("Warnings"));
      }
    });
    return texts;
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
    fill(collector.addRecord(RECORD), texts(), numbers());
    engines.forEach((name, engine) -> fill(
        collector.addRecord("TreadleEngine").tag(Interns.info("Engine", "Which engine"), name), engine.texts(),
        engine.numbers()));
    more.getMetrics(collector, all);
  }

  private static void fill(MetricsRecordBuilder record, Map<String, String> texts, Map<String, Long> numbers) {
    record.setContext("yarn");
    texts.forEach((name, text) -> record.tag(Interns.info(name, name), text));
    numbers.forEach((name, value) -> record.addGauge(Interns.info(name, name), value.longValue()));
  }
}

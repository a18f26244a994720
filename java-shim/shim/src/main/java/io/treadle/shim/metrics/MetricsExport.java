// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.util.MBeans;

/**
 * Shows the metrics of one scheduler: numbers as a metrics2 source (sinks, {@code /prom}), numbers and texts as beans
 * ({@code /jmx}). metrics2 gets no text: its Prometheus sink escapes nothing, so one quote would make the whole page of
 * the RM unreadable, and each new text would be a new series of every number. The bean {@code Treadle} reads when
 * asked, while metrics2's own beans are up to a period, 10 seconds, old. A JVM has room for one scheduler's: the one
 * that started last (with high availability a standby's is not started).
 */
public final class MetricsExport implements MetricsSource {
  /** The name of metrics2's own bean; its record is called {@value #RECORD}. */
  private static final String SOURCE = "TreadleMetrics";
  private static final String RECORD = "Treadle";
  private static final String SERVICE = "ResourceManager";

  private static MetricsExport shown;

  private final ShimMetrics metrics;
  private final Supplier<String> observation;
  private final MetricsSource more;
  private final List<ObjectName> beans = new ArrayList<>();

  /**
   * Metrics that are not shown yet.
   *
   * @param observation what {@code observe_only} found, a JSON object
   * @param more further records for metrics2: the same as numbers
   */
  public MetricsExport(ShimMetrics metrics, Supplier<String> observation, MetricsSource more) {
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
      bean(RECORD, new MetricsBean(metrics.numberSuppliers(), metrics.textSuppliers()));
      // beans of their own, since they are large
      bean("TreadlePlacements", textBean("Placements", metrics.placements()::json));
      bean("TreadleObservation", textBean("Observation", observation));
    }
  }

  /** Shows them no longer. */
  public void stop() {
    synchronized (MetricsExport.class) {
      if (shown == this) {
        shown = null;
        hide();
      }
    }
    metrics.stop();
  }

  private static MetricsBean textBean(String name, Supplier<String> text) {
    return new MetricsBean(Collections.emptyMap(), Collections.singletonMap(name, text));
  }

  private void bean(String name, MetricsBean bean) {
    ObjectName registered = MBeans.register(SERVICE, name, bean);
    if (registered != null) {
      beans.add(registered);
    }
  }

  private void hide() {
    DefaultMetricsSystem.instance().unregisterSource(SOURCE);
    beans.forEach(MBeans::unregister);
    beans.clear();
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    metrics.snapshot(collector.addRecord(RECORD), all);
    more.getMetrics(collector, all);
  }
}

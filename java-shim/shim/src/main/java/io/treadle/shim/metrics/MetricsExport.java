// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import java.util.function.Supplier;
import javax.management.ObjectName;
import org.apache.hadoop.metrics2.MetricsCollector;
import org.apache.hadoop.metrics2.MetricsSource;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.util.MBeans;

/**
 * Shows the metrics of one scheduler: numbers as a metrics2 source (sinks, {@code /prom}), numbers and texts as a bean
 * ({@code /jmx}). metrics2 gets no text: its Prometheus sink escapes nothing, so one quote would make the whole page of
 * the RM unreadable, and each new text would be a new series of every number. The bean {@code Treadle} reads when
 * asked, while metrics2's own bean is up to a period, 10 seconds, old. A JVM has room for one scheduler's: the one
 * that started last (with high availability a standby's is not started).
 */
public final class MetricsExport implements MetricsSource, TreadleMXBean {
  /** The name of metrics2's own bean; its record is called {@value #RECORD}. */
  private static final String SOURCE = "TreadleMetrics";
  private static final String RECORD = "Treadle";

  private static MetricsExport shown;

  private final ShimMetrics metrics;
  private final Supplier<String> observation;
  private final MetricsSource more;
  private ObjectName bean;

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
      bean = MBeans.register("ResourceManager", RECORD, this);
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

  private void hide() {
    DefaultMetricsSystem.instance().unregisterSource(SOURCE);
    MBeans.unregister(bean);
  }

  @Override
  public String getStatus() {
    return metrics.json();
  }

  @Override
  public String getPlacements() {
    return metrics.placements().json();
  }

  @Override
  public String getObservation() {
    return observation.get();
  }

  @Override
  public void getMetrics(MetricsCollector collector, boolean all) {
    metrics.snapshot(collector.addRecord(RECORD), all);
    more.getMetrics(collector, all);
  }
}

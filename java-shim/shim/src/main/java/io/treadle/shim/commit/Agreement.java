// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.metrics.ShimMetrics;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.metrics2.MetricsRecordBuilder;
import org.apache.hadoop.metrics2.lib.Interns;

/** What became of the containers that the stock scheduler placed, of one queue or framework. */
final class Agreement {
  /** What is counted. */
  enum Count {
    /** Placed by stock, and proposed by Treadle: on the same node, on another. */
    SAME_NODE, OTHER_NODE,
    /** Placed by stock, and not proposed by Treadle. */
    STOCK_ONLY,
    /**
     * Of those that both would place, which Treadle proposed before stock placed them, or after; the sums of how long.
     */
    EARLIER, EARLIER_MS, LATER, LATER_MS,
    /** Proposed by Treadle now, and not placed by stock yet. */
    WAITING
  }

  private final Map<Count, Long> counts = new EnumMap<>(Count.class);

  Agreement() {
    Arrays.stream(Count.values()).forEach(count -> counts.put(count, 0L));
  }

  void add(Count count, long more) {
    counts.merge(count, more, Long::sum);
  }

  void clear(Count count) {
    counts.put(count, 0L);
  }

  void write(ObjectNode json) {
    counts.forEach((count, number) -> json.put(count.name().toLowerCase(Locale.ROOT), number));
  }

  void write(MetricsRecordBuilder record) {
    record.setContext("yarn");
    counts.forEach((count, number) ->
        record.addGauge(Interns.info(ShimMetrics.camelCase(count), "Containers, or milliseconds"), number.longValue()));
  }
}

package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.NodeLabel;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/** Writes what else the engine follows of the RM's configuration, when any of it changed. */
final class SettingsSection {
  private static final String CAPACITY = "yarn.scheduler.capacity.";

  private Map<String, String> sent = new LinkedHashMap<>();

  void snapshot(Draft draft, FrameOptions options) {
    sent = new LinkedHashMap<>();
    update(draft, options);
  }

  void update(Draft draft, FrameOptions options) {
    Map<String, String> now = read(draft, options);
    if (now.equals(sent)) {
      return;
    }
    sent = now;
    for (Map.Entry<String, String> entry : now.entrySet()) {
      draft.section(Section.SETTINGS).name(draft.name(entry.getKey())).name(draft.name(entry.getValue())).end();
    }
  }

  private static Map<String, String> read(Draft draft, FrameOptions options) {
    Configuration queues = draft.scheduler.getConfiguration();
    Configuration yarn = draft.context.getYarnConfiguration();
    Map<String, String> settings = new LinkedHashMap<>();
    settings.put("node-locality-delay", queues.get(CAPACITY + "node-locality-delay", "40").trim());
    settings.put("rack-locality-additional-delay",
        queues.get(CAPACITY + "rack-locality-additional-delay", "-1").trim());
    settings.put("resource-calculator", draft.scheduler.getResourceCalculator().getClass().getName());
    settings.put("preemption-monitor", String.valueOf(yarn.getBoolean(YarnConfiguration.RM_SCHEDULER_ENABLE_MONITORS,
        YarnConfiguration.DEFAULT_RM_SCHEDULER_ENABLE_MONITORS)));
    settings.put("nm-heartbeat-ms", String.valueOf(yarn.getLong(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS,
        YarnConfiguration.DEFAULT_RM_NM_HEARTBEAT_INTERVAL_MS)));
    settings.put("mode", options.config.mode.text());
    settings.put("lease-ms", String.valueOf(options.config.leaseMs));
    settings.put("tick-ms", String.valueOf(options.config.tickMs));
    settings.put("batch-size", String.valueOf(options.config.batchSize));
    settings.put("cluster-id",
        yarn.get(YarnConfiguration.RM_CLUSTER_ID, YarnConfiguration.DEFAULT_RM_CLUSTER_ID));
    settings.put("shared-partitions", sharedPartitions(draft));
    return settings;
  }

  /** Partitions whose idle nodes may serve asks of the default partition, separated by commas. */
  private static String sharedPartitions(Draft draft) {
    if (draft.partitions.size() == 1) {
      return "";
    }
    Collection<String> shared = new TreeSet<>();
    for (NodeLabel label : draft.context.getNodeLabelManager().getClusterNodeLabels()) {
      if (!label.isExclusive()) {
        shared.add(label.getName());
      }
    }
    return String.join(",", shared);
  }
}

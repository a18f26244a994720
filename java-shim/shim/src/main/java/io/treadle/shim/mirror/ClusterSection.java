// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.wire.Section;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.NodeLabel;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;

/**
 * Writes the engine's part of the RM's configuration: the cluster's resource types, and which of them its
 * ResourceCalculator counts, in snapshots alone, since each row and each sum means something else with others; and
 * settings when any of them changed.
 */
final class ClusterSection {
  private static final String CAPACITY = "yarn.scheduler.capacity.";

  private Map<String, String> sent = new LinkedHashMap<>();
  private ResourceInformation[] sentTypes = {};
  private ResourceCalculator sentCalculator;

  void snapshot(Draft draft) {
    writeTypes(draft);
    sent = new LinkedHashMap<>();
    update(draft);
  }

  /** Whether the types or the calculator are others than when they were written: only a snapshot can say so. */
  boolean typesChanged(CapacityScheduler scheduler) {
    return sentCalculator != null && (sentCalculator != scheduler.getResourceCalculator()
        || !Arrays.equals(sentTypes, ResourceUtils.getResourceTypesArray()));
  }

  private void writeTypes(Draft draft) {
    ResourceCalculator calculator = draft.scheduler.getResourceCalculator();
    Resource minimum = draft.scheduler.getMinimumResourceCapability();
    Resource maximum = draft.scheduler.getMaximumResourceCapability();
    ResourceInformation[] types = ResourceUtils.getResourceTypesArray();
    sentTypes = types.clone();
    sentCalculator = calculator;
    for (int i = 0; i < types.length; i++) {
      draft.section(Section.RESOURCE_TYPES).add(draft.name(types[i].getName())).add(draft.name(types[i].getUnits()))
          .flag(SchedulerPort.isCounted(calculator, i)).add(minimum.getResourceInformation(i).getValue())
          .add(maximum.getResourceInformation(i).getValue()).end();
    }
  }

  /** Writes the settings if any of them has changed. */
  void update(Draft draft) {
    Map<String, String> now = read(draft);
    if (!now.equals(sent)) {
      sent = now;
      now.forEach((key, value) ->
          draft.section(Section.SETTINGS).add(draft.name(key)).add(draft.name(value)).end());
    }
  }

  private static Map<String, String> read(Draft draft) {
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
    ShimConfig shim = draft.options.config;
    settings.put("mode", shim.mode.text());
    settings.put("lease-ms", String.valueOf(shim.leaseMs));
    settings.put("tick-ms", String.valueOf(shim.tickMs));
    settings.put("batch-size", String.valueOf(shim.batchSize));
    settings.put("cluster-id", yarn.get(YarnConfiguration.RM_CLUSTER_ID, YarnConfiguration.DEFAULT_RM_CLUSTER_ID));
    settings.put("shared-partitions", sharedPartitions(draft));
    return settings;
  }

  /** Partitions whose idle nodes may serve asks of the default partition, separated by commas. */
  private static String sharedPartitions(Draft draft) {
    if (draft.partitions.size() == 1) {
      return "";
    }
    return draft.context.getNodeLabelManager().getClusterNodeLabels().stream().filter(label -> !label.isExclusive())
        .map(NodeLabel::getName).sorted().collect(Collectors.joining(","));
  }
}

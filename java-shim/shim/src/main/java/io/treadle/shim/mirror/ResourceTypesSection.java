package io.treadle.shim.mirror;

import io.treadle.shim.CountedResources;
import io.treadle.shim.wire.Section;
import java.util.Arrays;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;

/**
 * Writes the cluster's resource types, and which of them its ResourceCalculator counts, in snapshots. An RM reads both
 * when it starts; if either is another one day, each row and each sum of the engine means something else.
 */
final class ResourceTypesSection {
  private ResourceInformation[] sent = {};
  private ResourceCalculator sentCalculator;

  /** How many types there are, R. */
  static int count() {
    return ResourceUtils.getNumberOfKnownResourceTypes();
  }

  /** Whether the types or the calculator are others than when they were written: only a snapshot can say so. */
  boolean changed(CapacityScheduler scheduler) {
    return sentCalculator != null && (sentCalculator != scheduler.getResourceCalculator()
        || !Arrays.equals(sent, ResourceUtils.getResourceTypesArray()));
  }

  void write(Draft draft) {
    ResourceCalculator calculator = draft.scheduler.getResourceCalculator();
    Resource minimum = draft.scheduler.getMinimumResourceCapability();
    Resource maximum = draft.scheduler.getMaximumResourceCapability();
    ResourceInformation[] types = ResourceUtils.getResourceTypesArray();
    sent = types.clone();
    sentCalculator = calculator;
    for (int i = 0; i < types.length; i++) {
      draft.section(Section.RESOURCE_TYPES).name(draft.name(types[i].getName())).name(draft.name(types[i].getUnits()))
          .flag(CountedResources.isCounted(calculator, i)).i64(minimum.getResourceInformation(i).getValue())
          .i64(maximum.getResourceInformation(i).getValue()).end();
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;

/** What the sections share while one frame is written. */
final class Draft {
  private final FrameWriter writer;
  private final Names names;
  final CapacityScheduler scheduler;
  final RMContext context;
  final MirrorSettings settings;
  final boolean snapshot;
  final long rmTimeMs;
  final long monotonicMs;
  /** The cluster's partitions, the default one first. */
  final List<String> partitions;

  Draft(FrameWriter writer, Names names, CapacityScheduler scheduler, RMContext context, MirrorSettings settings,
      boolean snapshot, long rmTimeMs, long monotonicMs) {
    this.writer = writer;
    this.names = names;
    this.scheduler = scheduler;
    this.context = context;
    this.settings = settings;
    this.snapshot = snapshot;
    this.rmTimeMs = rmTimeMs;
    this.monotonicMs = monotonicMs;
    this.partitions = partitions(context);
  }

  private static List<String> partitions(RMContext context) {
    if (context.getNodeLabelManager() == null) {
      return Collections.singletonList("");
    }
    List<String> all = new ArrayList<>(context.getNodeLabelManager().getClusterNodeLabelNames());
    Collections.sort(all);
    all.remove("");
    all.add(0, "");
    return all;
  }

  SectionWriter section(Section section) {
    return writer.section(section);
  }

  int name(String text) {
    return names.index(text);
  }

  /** What a text costs the budget of the user who made it up. */
  int cost(String text) {
    return names.has(text) ? 0 : UserBudget.NAME;
  }

  /** The number of resource types, R. */
  int resources() {
    return writer.resources();
  }

  /**
   * Copies amounts into a row of what was sent last.
   *
   * @return whether any of them was another
   */
  boolean copy(Resource resource, long[] row, int from) {
    ResourceInformation[] types = resource == null ? null : resource.getResources();
    boolean changed = false;
    for (int i = 0; i < resources(); i++) {
      long value = types == null || i >= types.length ? 0 : types[i].getValue();
      changed |= row[from + i] != value;
      row[from + i] = value;
    }
    return changed;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.SchedulerPort;
import io.treadle.shim.wire.FrameWriter;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.commons.lang3.StringUtils;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;

/** The sections' common state while frames are written, and the texts that were sent, from one snapshot to the next. */
final class Draft {
  /** A longer text is cut off: only names of applications and tags, which users make up, can be that long. */
  static final int MAX_CHARS = 1000;

  private final FrameWriter writer;
  /** Readers of several engines may lag; then a text is not needed any more. */
  private static final long TEXTS_REST_MS = 10_000;

  private final Map<String, Name> names = new HashMap<>();
  private final Indices<Name> indices = new Indices<>(TEXTS_REST_MS);
  final CapacityScheduler scheduler;
  final RMContext context;
  final MirrorSettings settings;
  FrameOptions options;
  boolean snapshot;
  long rmTimeMs;
  long monotonicMs;
  /** The cluster's partitions, the default one first. */
  TreeSet<String> partitions;

  /** Begins with the empty text. */
  Draft(SchedulerPort port, MirrorSettings settings) {
    writer = new FrameWriter(ResourceUtils.getNumberOfKnownResourceTypes(), settings.frameMaxBytes);
    scheduler = port.scheduler();
    context = port.scheduler().getRMContext();
    this.settings = settings;
    name("");
  }

  /** Begins a frame. */
  void begin(boolean ofSnapshot, long frameRmTimeMs, long frameMonotonicMs, FrameOptions frameOptions) {
    snapshot = ofSnapshot;
    rmTimeMs = frameRmTimeMs;
    monotonicMs = frameMonotonicMs;
    options = frameOptions;
    partitions = new TreeSet<>();
    partitions.add("");
    if (context.getNodeLabelManager() != null) {
      partitions.addAll(context.getNodeLabelManager().getClusterNodeLabelNames());
    }
  }

  /** Ends the frame; returns its parts, of which the first one has this sequence number. */
  List<byte[]> end(long epoch, long sequence) {
    int flags = (snapshot ? FrameWriter.FLAG_SNAPSHOT : 0) | (options.observe ? FrameWriter.FLAG_OBSERVE : 0);
    return writer.frames(epoch, sequence, rmTimeMs, flags, options.configuration, options.limit);
  }

  SectionWriter section(Section section) {
    return writer.section(section);
  }

  /**
   * The index of a text, which is sent first if it is new, and stays until the next snapshot; null is the empty text.
   */
  int name(String text) {
    Name name = find(text == null ? "" : StringUtils.left(text, MAX_CHARS));
    name.stays = true;
    return name.index;
  }

  /** The same of a text that an application made up: its index may be another one's when all that use it have gone. */
  int name(String text, ApplicationSection.Row application) {
    String key = text == null ? "" : StringUtils.left(text, MAX_CHARS);
    Name name = find(key);
    if (!name.stays && application.texts.add(key)) {
      application.budget.hasTexts(1);
      name.applications++;
    }
    return name.index;
  }

  private Name find(String key) {
    Name name = names.get(key);
    if (name == null) {
      name = indices.add(Name::new, monotonicMs);
      names.put(key, name);
      writer.text(name.index, key);
    }
    return name;
  }

  /** An application has gone, and with it the texts that it alone used. */
  void release(ApplicationSection.Row application) {
    application.budget.hasTexts(-application.texts.size());
    for (String key : application.texts) {
      Name name = names.get(key);
      if (--name.applications == 0 && !name.stays) {
        names.remove(key);
        indices.remove(name.index, monotonicMs);
      }
    }
  }

  /** How many indices texts have. */
  int names() {
    return indices.size();
  }

  /** What a text costs the budget of the user who made it up. */
  int cost(String text) {
    return text == null || names.containsKey(StringUtils.left(text, MAX_CHARS)) ? 0 : UserBudget.NAME;
  }

  /** The number of resource types, R. */
  int resources() {
    return writer.resources;
  }

  /** A text that was sent. */
  private static final class Name {
    private final int index;
    private boolean stays;
    /** How many refer to it, unless it stays. */
    private int applications;

    Name(int index) {
      this.index = index;
    }
  }
}

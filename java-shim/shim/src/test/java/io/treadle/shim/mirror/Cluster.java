// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.ShimConfig;
import io.treadle.shim.wire.Directory;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacitySchedulerConfiguration;

/** A ResourceManager with taps, a mirror, and what an engine would know. Reviews are off: the taps have to suffice. */
final class Cluster implements AutoCloseable {
  static final ShimConfig SETTINGS = enforcing();
  /** The RM's containers have times of its own clock. */
  private final long startedMs = System.currentTimeMillis();
  /** Makes labels and gives them to nodes. */
  interface Labelling {
    void apply(RMNodeLabelsManager labels) throws IOException;
  }

  static final long NEVER_MS = 1L << 40;

  final MockRM rm;
  final TappedScheduler scheduler;
  Mirror mirror;
  EngineModel model = new EngineModel();
  private final MirrorSettings settings;
  private final ModelCheck modelCheck;
  private long epoch = 77;
  private long nowMs = Time.monotonicNow();

  Cluster(YarnConfiguration conf, MirrorSettings settings) throws IOException {
    this(conf, settings, labels -> { });
  }

  /** With what a test does to the node labels before the RM starts. */
  Cluster(YarnConfiguration conf, MirrorSettings settings, Labelling labelling) throws IOException {
    conf.setClass(YarnConfiguration.RM_SCHEDULER, TappedScheduler.class, ResourceScheduler.class);
    rm = new MockRM(conf);
    labelling.apply(rm.getRMContext().getNodeLabelManager());
    rm.start();
    scheduler = (TappedScheduler) rm.getResourceScheduler();
    this.settings = settings;
    modelCheck = new ModelCheck(scheduler);
    mirror = new Mirror(scheduler, scheduler.journal, settings, new HashMap<>());
    mirror.start(epoch);
  }

  private static ShimConfig enforcing() {
    Configuration conf = new Configuration(false);
    conf.set(ShimConfig.MODE, "enforce");
    return ShimConfig.read(conf);
  }

  static MirrorSettings settings(int frameMaxBytes) {
    return new MirrorSettings(frameMaxBytes, NEVER_MS, NEVER_MS, NEVER_MS);
  }

  /** Two leaves, of which the second is fair and half as big. */
  static YarnConfiguration conf() {
    CapacitySchedulerConfiguration queues = new CapacitySchedulerConfiguration(new YarnConfiguration(), false);
    String prefix = "yarn.scheduler.capacity.";
    queues.set(prefix + "root.queues", "a,b");
    queues.set(prefix + "root.a.capacity", "60");
    queues.set(prefix + "root.b.capacity", "40");
    queues.set(prefix + "root.a.maximum-capacity", "90");
    queues.set(prefix + "root.b.ordering-policy", "fair");
    queues.set(prefix + "root.b.ordering-policy.fair.enable-size-based-weight", "true");
    queues.set(prefix + "root.b.priority", "3");
    queues.set(prefix + "maximum-am-resource-percent", "0.5");
    queues.set(prefix + "schedule-asynchronously.enable", "false");
    return new YarnConfiguration(queues);
  }

  FrameOptions options() {
    return new FrameOptions(false, 1, 100, SETTINGS);
  }

  /** Lets the RM come to rest and hands the engine the next frames. */
  List<byte[]> tick() {
    rm.drainEvents();
    nowMs += 150;
    List<byte[]> frames = mirror.frames(startedMs + nowMs, nowMs, options());
    model.apply(frames);
    return frames;
  }

  /** Hands over frames and compares everything. */
  void tickAndCheck() {
    tick();
    check();
  }

  void check() {
    modelCheck.check(model);
    assertEquals("[]", scheduler.failures.toString());
  }

  /** The engine has gone and another one comes. */
  void changeEngine() {
    mirror.hungUp();
    mirror.start(++epoch);
    model.sequence = 0;
  }

  /** Shim and engine begin with nothing: all that is known comes from the scheduler. */
  void failOver() {
    mirror.hungUp();
    mirror = new Mirror(scheduler, scheduler.journal, settings, new HashMap<>());
    mirror.start(++epoch);
    int snapshots = model.snapshots;
    model = new EngineModel();
    model.snapshots = snapshots;
  }

  Directory directory() {
    return mirror;
  }

  @Override
  public void close() {
    rm.stop();
  }
}

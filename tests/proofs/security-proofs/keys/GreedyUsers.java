// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.util.Time;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.slf4j.event.Level;

/**
 * GreedyUsers FILE STANDING CHANGES FRAMES: writes the frames of a cluster in which one user has STANDING request keys,
 * another one changes CHANGES of 20,000 keys a second, and a third one asks for a little; 20 frames a second. A frame is its
 * length, nanoseconds of CPU that the mirror took for it, and its bytes.
 */
public final class GreedyUsers {
  private static final int KEYS_OF_AN_APPLICATION = 20_000;
  private static final int FRAME_MS = 50;
  private static final int WARM = 100;
  private final Cluster cluster;
  private final MockNM node;
  private long nowMs = Time.monotonicNow();

  private GreedyUsers(Cluster cluster) throws Exception {
    this.cluster = cluster;
    node = cluster.rm.registerNode("h1:1234", 128 * 1024, 128);
    for (int i = 2; i < 100; i++) {
      cluster.rm.registerNode("h" + i + ":1234", 32 * 1024, 32);
    }
  }

  private MockAM begin(String user) throws Exception {
    return MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder
        .createWithMemory(1024, cluster.rm).withQueue("a").withUser(user).withUnmanagedAM(false).build()), cluster.rm, node);
  }

  /** Requests that nothing has room for, with allocation request IDs {@code from} to {@code to - 1}. */
  private static void ask(MockAM am, int from, int to, int count) throws Exception {
    List<ResourceRequest> asks = new ArrayList<>();
    for (int id = from; id < to; id++) {
      asks.add(ResourceRequest.newBuilder().priority(Priority.newInstance(id % 50)).resourceName("*")
          .capability(Resource.newInstance(60_000, 60)).numContainers(count).allocationRequestId(id).build());
    }
    am.allocate(asks, Collections.emptyList());
  }

  private void run(String file, int standing, int changes, int frames) throws Exception {
    List<MockAM> few = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      few.add(begin("ann"));
    }
    List<MockAM> changing = new ArrayList<>();
    for (int i = 0; i < 10 && changes > 0; i++) {
      changing.add(begin("eve"));
    }
    List<MockAM> many = new ArrayList<>();
    for (int i = 0; i < standing / KEYS_OF_AN_APPLICATION; i++) {
      many.add(begin("mallory"));
    }
    for (MockAM am : many) {
      ask(am, 0, KEYS_OF_AN_APPLICATION, 1);
    }
    Mirror mirror = new Mirror(cluster.scheduler, cluster.scheduler.journal,
        new MirrorSettings(16 << 20, Cluster.NEVER_MS, 200, 1000), new HashMap<>());
    mirror.start(7);
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long[] cpuNs = new long[frames];
    int next = 0;
    try (DataOutputStream out = new DataOutputStream(new FileOutputStream(file))) {
      for (int i = 0; i < frames + WARM; i++) {
        few.get(i % few.size()).allocate(few.get(0).createReq(new String[] {"h" + (2 + i % 90)}, 30_000, 1 + i % 3, 1, -1),
            new ArrayList<>());
        for (int left = changes * FRAME_MS / 1000; left > 0; left -= 100) {
          ask(changing.get(next % 10), next / 10 * 100 % 2000, next / 10 * 100 % 2000 + 100, 1 + i % 1000);
          next++;
        }
        cluster.rm.drainEvents();
        nowMs += FRAME_MS;
        long before = threads.getCurrentThreadCpuTime();
        List<byte[]> written = mirror.frames(nowMs, nowMs, cluster.options());
        long tookNs = threads.getCurrentThreadCpuTime() - before;
        if (i >= WARM) {
          cpuNs[i - WARM] = tookNs;
        }
        for (byte[] frame : written) {
          out.writeInt(frame.length);
          out.writeLong(tookNs);
          out.write(frame);
        }
      }
    }
    Arrays.sort(cpuNs);
    System.out.println("snapshots " + mirror.snapshots() + " median " + cpuNs[frames / 2] / 1000 + " us p99 "
        + cpuNs[frames * 99 / 100] / 1000 + " us longest " + cpuNs[frames - 1] / 1000 + " us");
  }

  public static void main(String[] words) throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");
    conf.set("yarn.scheduler.capacity.root.a.user-limit-factor", "100");
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_MB, 65_536);
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MAXIMUM_ALLOCATION_VCORES, 64);
    try (Cluster cluster = new Cluster(conf, Cluster.settings(16 << 20))) {
      GenericTestUtils.setRootLogLevel(Level.WARN);
      new GreedyUsers(cluster).run(words[0], Integer.parseInt(words[1]), Integer.parseInt(words[2]),
          Integer.parseInt(words[3]));
    }
    System.exit(0);
  }
}

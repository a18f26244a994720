package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.Test;

/**
 * How long the mirror writes a snapshot, printed for whoever wants to know; the test is of what is in it. Sizes are
 * system properties, small ones unless they are given.
 */
class SnapshotTimeTest {
  private static final int NODES = Integer.getInteger("treadle.snapshot.nodes", 20);
  private static final int ASKS = Integer.getInteger("treadle.snapshot.asks", 200);
  private static final int ASKS_OF_AN_APPLICATION = 100;
  /** Containers that an ask is for: heartbeats place a few meanwhile. */
  private static final int MANY = 1000;
  private static final int TIMES = 10;

  @Test
  void aSnapshotHasAllNodesAndAllAsks() throws Exception {
    try (Cluster cluster = new Cluster(Cluster.conf(), Cluster.settings(8 << 20))) {
      MockNM first = null;
      for (int i = 0; i < NODES; i++) {
        first = cluster.rm.registerNode("n" + i + ":1234", 16 * 1024, 16);
      }
      for (int i = 0; i < ASKS / ASKS_OF_AN_APPLICATION; i++) {
        ask(cluster.rm, first);
      }
      cluster.rm.drainEvents();
      long[] micros = new long[TIMES];
      for (int i = 0; i < TIMES; i++) {
        cluster.mirror.snapshotNeeded();
        long begin = System.nanoTime();
        List<byte[]> frames = cluster.mirror.frames(0, 1000L * i, cluster.options());
        micros[i] = (System.nanoTime() - begin) / 1000;
        assertEquals(NODES, rows(frames, Section.NODES));
        assertEquals(ASKS, rows(frames, Section.REQUESTS));
      }
      System.out.println("snapshot of " + NODES + " nodes and " + ASKS + " asks, µs: " + Arrays.toString(micros));
    }
  }

  private static void ask(MockRM rm, MockNM node) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, rm).withQueue("a")
        .withUnmanagedAM(true).build());
    MockAM am = MockRM.launchUAM(app, rm, node);
    am.registerAppAttempt();
    List<ResourceRequest> requests = new ArrayList<>();
    for (int priority = 1; priority <= ASKS_OF_AN_APPLICATION; priority++) {
      requests.add(ResourceRequest.newInstance(Priority.newInstance(priority), ResourceRequest.ANY,
          Resource.newInstance(1024, 1), MANY));
    }
    am.allocate(requests, new ArrayList<>());
  }

  private static int rows(List<byte[]> frames, Section section) {
    return frames.stream().mapToInt(frame -> new FrameReader(frame).table(section).rows()).sum();
  }
}

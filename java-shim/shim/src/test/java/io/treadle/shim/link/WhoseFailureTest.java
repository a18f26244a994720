// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.ShimConfig;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Journal;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import io.treadle.shim.wire.FrameWriter.FrameTooSmallException;
import io.treadle.shim.wire.Section;
import java.io.IOException;
import java.util.HashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A failure on our side is no reason to replace a sidecar: the source of engines does not hear of it. */
@Timeout(120)
class WhoseFailureTest {
  private final AtomicInteger connected = new AtomicInteger();
  private final AtomicInteger blamed = new AtomicInteger();
  private final Lease lease = new Lease(System::nanoTime, 2000);
  private String text = "an engine that fails";
  private final ShimMetrics metrics = new ShimMetrics();

  /** Runs a link until it has failed some times, with a scheduler that cannot be read. */
  private void failing(RuntimeException fault) throws Exception {
    failing(new BrokenPort(fault));
  }

  private void failing(SchedulerPort port) throws Exception {
    Configuration conf = new Configuration(false);
    conf.set(ShimConfig.MODE, "enforce");
    Mirror mirror = new Mirror(port, new Journal(16, () -> { }), new MirrorSettings(1 << 16, 1000, 200, 1000),
        new HashMap<>());
    Link link = new Link("whose-failure", mirror, lease, new CountingSource(), new NoHandler(), metrics, () -> true,
        ShimConfig.read(conf));
    link.start();
    try {
      Await.until("the link has failed three times", () -> metrics.numbers().get("LinkFailures") >= 3);
    } finally {
      link.stop();
    }
    assertTrue(connected.get() >= 3);
  }

  @Test
  void aMirrorThatFailsIsNotTheEnginesFault() throws Exception {
    failing(new IllegalStateException("a mirror that fails"));
    assertEquals(0, blamed.get());
    String said = metrics.text("LastError");
    assertTrue(said.startsWith("in the ResourceManager, not in the engine: "), said);
    assertTrue(said.contains("a mirror that fails"), said);
  }

  @Test
  void aFrameThatIsTooSmallIsNotTheEnginesFault() throws Exception {
    failing(new FrameTooSmallException(Section.QUEUES, 100_000, 65_536));
    assertEquals(0, blamed.get());
    assertTrue(metrics.text("LastError").contains("raise yarn.scheduler.treadle.frame.max-bytes"));
  }

  @Test
  void anEngineThatFailsIsBlamed() throws Exception {
    try (ClusterFixture cluster = ClusterFixture.cluster().start()) {
      failing(cluster.scheduler());
    }
    assertTrue(blamed.get() >= 2);
    assertTrue(metrics.text("LastError").contains("an engine that fails"), metrics.text("LastError"));
  }

  @Test
  void whatAFailureSaysStaysOnOneLine() throws Exception {
    text = "x\n2026-11-22 ERROR forged \u001b[2Jy";
    try (ClusterFixture cluster = ClusterFixture.cluster().start()) {
      failing(cluster.scheduler());
    }
    String said = metrics.text("LastError");
    assertTrue(said.endsWith("x 2026-11-22 ERROR forged  [2Jy"), said);
  }

  private final class CountingSource implements EngineSource {
    @Override
    public Engine connect(int timeoutMs) {
      connected.incrementAndGet();
      return new Engine() {
        @Override
        public byte[] decide(byte[] frame) throws IOException {
          throw new IllegalStateException(text);
        }

        @Override
        public void close() {
        }
      };
    }

    @Override
    public void failed() {
      blamed.incrementAndGet();
    }
  }

  /** A scheduler that cannot be read. */
  private static final class BrokenPort implements SchedulerPort {
    private final RuntimeException fault;

    BrokenPort(RuntimeException fault) {
      this.fault = fault;
    }

    @Override
    public CapacityScheduler scheduler() {
      throw fault;
    }

    @Override
    public Lock readLock() {
      return null;
    }

    @Override
    public Lock writeLock() {
      return null;
    }
  }
}

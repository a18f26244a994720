// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ShimConfigTest {
  private final Configuration conf = new Configuration(false);

  @Test
  void defaultsNeedNoFile() {
    ShimConfig config = ShimConfig.read(conf);
    assertEquals(ShimConfig.Mode.OBSERVE_ONLY, config.mode);
    assertEquals(2000, config.leaseMs);
    assertEquals(10, config.tickMs);
    assertFalse(config.external);
    assertEquals("treadle", config.pythonCommand);
    assertEquals("", config.configFile);
    assertEquals(300_000, config.startTimeoutMs);
    assertEquals(8_388_608, config.frameMaxBytes);
    assertEquals(40 + (4096 + 511) * 16 + 8 + 2 * 65_536 + 65_536, config.replyMaxBytes);
    assertEquals(4096, config.proposalsMax);
    assertEquals(48, config.batchSize);
    assertEquals("", config.engineClass);
    assertEquals("treadle-sidecar.log", config.logFile.getName());
  }

  @Test
  void takesWhatIsSet() {
    conf.set(ShimConfig.MODE, " enforce ");
    conf.set(ShimConfig.LEASE_MS, "5000");
    conf.set(ShimConfig.TICK_MS, "20");
    conf.set(ShimConfig.SIDECAR, "external");
    conf.set(ShimConfig.CONNECTION_FILE, "/run/treadle.json");
    conf.set(ShimConfig.SIDECAR_LOG_FILE, "/var/log/sidecar.log");
    conf.set(ShimConfig.NODE_STALE_MS, "7000");
    ShimConfig config = ShimConfig.read(conf);
    assertEquals(ShimConfig.Mode.ENFORCE, config.mode);
    assertEquals(5000, config.leaseMs);
    assertEquals(20, config.tickMs);
    assertTrue(config.external);
    assertEquals("/run/treadle.json", config.connectionFile);
    assertEquals(new File("/var/log/sidecar.log"), config.logFile);
    assertEquals(7000, config.nodeStaleMs(conf));
  }

  @ParameterizedTest
  @CsvSource({
      "mode, enforced, enforce",
      "mode, ENFORCE, observe_only",
      "lease-ms, soon, 100",
      "lease-ms, 2s, 600000",
      "lease-ms, 99, 100",
      "lease-ms, 99999999999999999999, 600000",
      "tick-ms, 0, 500",
      "tick-ms, 501, lease-ms",
      "sidecar, remote, external",
      "sidecar.start-timeout-ms, -1, 100",
      "frame.max-bytes, 10, 65536",
      "proposals.max, 0, 1000000",
      "batch.size, 5000, 4096",
      "node-stale-ms, -5, 0"})
  void saysKeyValueAndWhatIsAllowed(String key, String value, String allowed) {
    conf.set(ShimConfig.PREFIX + key, value);
    String message = assertThrows(IllegalArgumentException.class, () -> ShimConfig.read(conf)).getMessage();
    assertTrue(message.contains(ShimConfig.PREFIX + key), message);
    assertTrue(message.contains("'" + value + "'"), message);
    assertTrue(message.contains(allowed), message);
    assertTrue(message.contains("yarn-site.xml"), message);
  }

  @Test
  void anExternalSidecarNeedsAConnectionFile() {
    conf.set(ShimConfig.SIDECAR, "external");
    String message = assertThrows(IllegalArgumentException.class, () -> ShimConfig.read(conf)).getMessage();
    assertTrue(message.contains(ShimConfig.CONNECTION_FILE), message);
  }

  @Test
  void aRefreshTakesModeLeaseAndTickOnly() {
    ShimConfig before = ShimConfig.read(conf);
    conf.set(ShimConfig.MODE, "enforce");
    conf.set(ShimConfig.LEASE_MS, "3000");
    conf.set(ShimConfig.TICK_MS, "30");
    conf.set(ShimConfig.PROPOSALS_MAX, "7");
    conf.set(ShimConfig.SIDECAR, "neither");
    ShimConfig after = before.refreshed(conf);
    assertEquals(ShimConfig.Mode.ENFORCE, after.mode);
    assertEquals(3000, after.leaseMs);
    assertEquals(30, after.tickMs);
    assertEquals(4096, after.proposalsMax);
    assertFalse(after.external);
  }

  @Test
  void aShortLeaseShortensTheDefaultTick() {
    conf.set(ShimConfig.LEASE_MS, "100");
    assertEquals(10, ShimConfig.read(conf).tickMs);
    conf.set(ShimConfig.TICK_MS, "26");
    assertThrows(IllegalArgumentException.class, () -> ShimConfig.read(conf));
  }

  @Test
  void staleNodesAreJudgedAsAsynchronousSchedulingDoes() {
    ShimConfig config = ShimConfig.read(conf);
    assertEquals(2000, config.nodeStaleMs(conf));
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "3000");
    assertEquals(6000, config.nodeStaleMs(conf));
    conf.set("yarn.scheduler.skip.node.multiplier", "4");
    assertEquals(12_000, config.nodeStaleMs(conf));
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "100");
    assertEquals(2000, config.nodeStaleMs(conf));
  }

  /** With heartbeat-interval-scaling-enable busy nodes send heartbeats less often, and are not silent for that. */
  @Test
  void nodesThatTheResourceManagerSlowsDownAreNotStale() {
    ShimConfig config = ShimConfig.read(conf);
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-max-ms", "8000");
    assertEquals(2000, config.nodeStaleMs(conf));
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-scaling-enable", "true");
    assertEquals(16_000, config.nodeStaleMs(conf));
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-max-ms", "500");
    assertEquals(2000, config.nodeStaleMs(conf));
  }

  @Test
  void offIsOff() {
    assertEquals(ShimConfig.Mode.OFF, ShimConfig.off(conf).mode);
  }

  @Test
  void itsLogIsBesideThatOfTheResourceManager() throws Exception {
    String[] keys = {"yarn.log.dir", "hadoop.log.dir"};
    String[] before = {System.getProperty(keys[0]), System.getProperty(keys[1])};
    try {
      System.clearProperty(keys[0]);
      System.clearProperty(keys[1]);
      assertEquals(new File(System.getProperty("user.dir")), ShimConfig.read(conf).logFile.getParentFile());
      System.setProperty(keys[1], "/hadoop");
      assertEquals(new File("/hadoop/treadle-sidecar.log"), ShimConfig.read(conf).logFile);
      System.setProperty(keys[0], "/logs");
      assertEquals(new File("/logs/treadle-sidecar.log"), ShimConfig.read(conf).logFile);
    } finally {
      for (int i = 0; i < keys.length; i++) {
        if (before[i] == null) {
          System.clearProperty(keys[i]);
        } else {
          System.setProperty(keys[i], before[i]);
        }
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.Fate;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerImpl;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.junit.jupiter.api.Test;

/**
 * The siege in bulk, run by {@code python -m tests.campaign hostile} and by no test run: system properties say from
 * which seed on, for how long, and into which file it writes what it did.
 */
class HostileCampaign {
  private static final int ROUNDS = 500;
  private static final int PROPOSALS = 4000;

  @Test
  void siege() throws Exception {
    long seed = Long.getLong("treadle.campaign.seed");
    long endNanos = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.getLong("treadle.campaign.seconds"));
    String file = System.getProperty("treadle.campaign.file");
    Set<Fate> seen = EnumSet.noneOf(Fate.class);
    long rounds = 0;
    String found = "";
    for (long number = 0; found.isEmpty() && System.nanoTime() - endNanos < 0; number++) {
      long clusterSeed = seed * 1_000_003 + number;
      try (HostileSiege siege = new HostileSiege(clusterSeed)) {
        // each container that is given back before its AM has taken it is a stack trace of Hadoop's
        Logger.getLogger(RMContainerImpl.class).setLevel(Level.OFF);
        for (int round = 0; round < ROUNDS && System.nanoTime() - endNanos < 0; round++) {
          siege.round(PROPOSALS);
          rounds++;
        }
        seen.addAll(siege.seen());
      } catch (AssertionError e) {
        found = "cluster seed " + clusterSeed + ", round " + rounds % ROUNDS + ": " + e.getMessage();
      }
    }
    String text = "proposals=" + rounds * PROPOSALS + "\nfates=" + seen.size() + "\nfound=" + found + "\n";
    Files.write(Paths.get(file), text.getBytes(StandardCharsets.UTF_8));
    assertTrue(found.isEmpty(), found);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

class IgnoredKeysTest {
  private final Configuration conf = new Configuration(false);

  @Test
  void everyKeyOfOursIsKnown() throws Exception {
    for (Field field : ShimConfig.class.getFields()) {
      if (Modifier.isStatic(field.getModifiers()) && field.getType() == String.class
          && !"PREFIX".equals(field.getName())) {
        conf.set((String) field.get(null), "1");
      }
    }
    assertEquals(Collections.emptyList(), ShimConfig.off(conf).ignored(conf));
  }

  @Test
  void aMisspeltKeyIsNamed() {
    conf.set(ShimConfig.PREFIX + "leasems", "5000");
    conf.set(ShimConfig.LEASE_MS, "5000");
    List<String> said = ShimConfig.off(conf).ignored(conf);
    assertEquals(1, said.size());
    assertTrue(said.get(0).startsWith("yarn.scheduler.treadle.leasems is not a key"), said.get(0));
    assertTrue(said.get(0).contains("lease-ms, mode"), said.get(0));
  }

  @Test
  void whatNeedsARestartIsNamedAsLongAsItDiffers() throws Exception {
    conf.set(ShimConfig.PYTHON_COMMAND, "treadle");
    ShimConfig config = ShimConfig.read(conf);
    conf.set(ShimConfig.MODE, "enforce");
    conf.set(ShimConfig.PYTHON_COMMAND, " /opt/treadle ");
    conf.set(ShimConfig.SIDECAR, "external");
    List<String> said = config.ignored(conf);
    assertEquals(2, said.size());
    assertTrue(said.get(0).contains("python.command is now '/opt/treadle'"), said.get(0));
    assertTrue(said.get(0).contains("goes on with 'treadle'"), said.get(0));
    assertTrue(said.get(0).contains("restart"), said.get(0));
    assertTrue(said.get(1).contains("sidecar is now 'external'"), said.get(1));
    conf.set(ShimConfig.PYTHON_COMMAND, "treadle");
    conf.unset(ShimConfig.SIDECAR);
    assertEquals(Collections.emptyList(), config.ignored(conf));
  }
}

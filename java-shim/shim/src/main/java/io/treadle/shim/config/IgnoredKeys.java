// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;

/**
 * Keys of Treadle's in yarn-site.xml that do nothing: those that nobody knows, and those that were changed though they
 * are read at start-up only. Immutable.
 */
public final class IgnoredKeys {
  private static final List<String> AT_START = Collections.unmodifiableList(Arrays.asList(ShimConfig.SIDECAR,
      ShimConfig.PYTHON_COMMAND, ShimConfig.CONFIG_FILE, ShimConfig.SIDECAR_LOG_FILE,
      ShimConfig.SIDECAR_START_TIMEOUT_MS, ShimConfig.CONNECTION_FILE, ShimConfig.SIDECAR_USER,
      ShimConfig.FRAME_MAX_BYTES, ShimConfig.PROPOSALS_MAX, ShimConfig.BATCH_SIZE,
      ShimConfig.NODE_STALE_MS, ShimConfig.ENGINE_CLASS));

  private final Map<String, String> atStart = new HashMap<>();

  /** Goes by the configuration that Treadle's settings were read from. */
  public IgnoredKeys(Configuration conf) {
    AT_START.forEach(key -> atStart.put(key, text(conf, key)));
  }

  private static String text(Configuration conf, String key) {
    return conf.getTrimmed(key, "");
  }

  /** A sentence for each key of a configuration that is ignored, with what to do, in the order of the keys. */
  public List<String> in(Configuration conf) {
    List<String> said = new ArrayList<>();
    for (String suffix : new TreeSet<>(conf.getPropsWithPrefix(ShimConfig.PREFIX).keySet())) {
      String key = ShimConfig.PREFIX + suffix;
      if (!ShimConfig.REFRESHED.contains(key) && !AT_START.contains(key)) {
        said.add(key + " is no key of Treadle's and does nothing: correct it in yarn-site.xml; there are " + known());
      }
    }
    for (String key : new TreeSet<>(AT_START)) {
      String now = text(conf, key);
      String before = atStart.get(key);
      if (!now.equals(before)) {
        said.add(key + " is now '" + now + "', but the ResourceManager goes on with '" + before
            + "': restart it to take that over");
      }
    }
    return said;
  }

  private static String known() {
    TreeSet<String> keys = new TreeSet<>();
    ShimConfig.REFRESHED.forEach(key -> keys.add(key.substring(ShimConfig.PREFIX.length())));
    AT_START.forEach(key -> keys.add(key.substring(ShimConfig.PREFIX.length())));
    return String.join(", ", keys);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.Collections;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * Node requirements and preferences of applications: their tags, and {@code TREADLE_REQUIRE} and {@code TREADLE_PREFER}
 * in the environment of their application master, which the engine receives as tags.
 */
public final class ApplicationTags {
  /** A longer variable would not fit in a text of a frame with what its tag begins with. */
  static final int MAX_VARIABLE_CHARS = 900;
  private static final int MAX_TAGS = 64;

  private ApplicationTags() {
  }

  /** The tags of an application and what its environment adds to them, in order. */
  public static Set<String> of(RMApp app) {
    Set<String> own = app.getApplicationTags() == null ? Collections.emptySet() : app.getApplicationTags();
    Map<String, String> environment = app.getApplicationSchedulingEnvs();
    TreeSet<String> all = new TreeSet<>();
    own.stream().limit(MAX_TAGS).forEach(all::add);
    for (String use : environment == null ? new String[0] : new String[] {"require", "prefer"}) {
      String variable = environment.get("TREADLE_" + use.toUpperCase(Locale.ROOT));
      if (variable != null) {
        // one that is too long must not be cut off to another that can be read: what follows the sign does not show it
        all.add("treadle:" + use + "=" + (variable.length() <= MAX_VARIABLE_CHARS ? variable : ""));
      }
    }
    return all;
  }

  /** Whether only the engine knows which nodes, or how many containers at once, an application needs. */
  public static boolean areForEngine(RMApp app) {
    return app != null
        && of(app).stream().anyMatch(tag -> tag.startsWith("treadle:require=") || tag.startsWith("treadle:gang="));
  }
}

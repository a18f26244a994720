// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import io.treadle.shim.Printable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;

/**
 * Where applications say what they require: in tags, {@code treadle:require=...} and {@code treadle:prefer=...}, or, in
 * the environment of their application master, as {@code TREADLE_REQUIRE} and {@code TREADLE_PREFER}. An environment's
 * go to the engine as tags.
 */
public final class Requirements {
  /** What a tag begins with. */
  static final String REQUIRE = "treadle:require=";
  static final String PREFER = "treadle:prefer=";
  /** Variables of an application master's environment, which its submitter can set. */
  static final String REQUIRE_VARIABLE = "TREADLE_REQUIRE";
  static final String PREFER_VARIABLE = "TREADLE_PREFER";
  /** A longer one from an environment would not fit in a text of a frame with what tags begin with. */
  static final int MAX_VARIABLE_CHARS = 900;
  private static final int MAX_TAGS = 64;

  private Requirements() {
  }

  /** What an application requires; null, an application that has gone, requires nothing. */
  public static Requirement of(RMApp app) {
    if (app == null) {
      return Requirement.NONE;
    }
    List<String> texts = null;
    for (String tag : tags(app)) {
      if (tag.startsWith(REQUIRE)) {
        texts = texts == null ? new ArrayList<>(1) : texts;
        texts.add(tag.substring(REQUIRE.length()));
      }
    }
    return texts == null ? Requirement.NONE : Requirement.of(texts);
  }

  /** The tags of an application and what its environment adds to them, in order. */
  public static Set<String> tags(RMApp app) {
    Set<String> own = app.getApplicationTags();
    Map<String, String> environment = app.getApplicationSchedulingEnvs();
    String require = environment == null ? null : environment.get(REQUIRE_VARIABLE);
    String prefer = environment == null ? null : environment.get(PREFER_VARIABLE);
    if (own == null || own.isEmpty()) {
      if (require == null && prefer == null) {
        return Collections.emptySet();
      }
    } else if (require == null && prefer == null) {
      return own;
    }
    TreeSet<String> all = new TreeSet<>();
    if (own != null) {
      own.stream().limit(MAX_TAGS).forEach(all::add);
    }
    if (require != null) {
      all.add(REQUIRE + bounded(require));
    }
    if (prefer != null) {
      all.add(PREFER + bounded(prefer));
    }
    return all;
  }

  /** One that is too long must not be cut off to another that can be read: what follows the sign does not show it. */
  private static String bounded(String variable) {
    return variable.length() <= MAX_VARIABLE_CHARS ? variable : "";
  }

  /** Whether an attempt's next container is its application master's, which may go anywhere. */
  public static boolean awaitsMaster(RMApp app, ApplicationAttemptId id) {
    RMAppAttempt attempt = current(app, id);
    return attempt != null && attempt.getMasterContainer() == null
        && !attempt.getSubmissionContext().getUnmanagedAM();
  }

  /** Whether a container is its attempt's application master's, or will be. */
  public static boolean isMaster(RMApp app, ContainerId id) {
    RMAppAttempt attempt = current(app, id.getApplicationAttemptId());
    Container master = attempt == null ? null : attempt.getMasterContainer();
    return master == null ? awaitsMaster(app, id.getApplicationAttemptId()) : master.getId().equals(id);
  }

  /** Shows a text as the diagnostics of an attempt that has its master, managed or not, until other ones come. */
  public static void report(RMApp app, ApplicationAttemptId id, String text) {
    RMAppAttempt attempt = current(app, id);
    if (attempt != null && !awaitsMaster(app, id)) {
      attempt.updateAMLaunchDiagnostics(text == null ? null : Printable.line(text));
    }
  }

  /** Found without a lock: commits hold the scheduler's, and other threads hold the application's and wait for that. */
  private static RMAppAttempt current(RMApp app, ApplicationAttemptId id) {
    RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
    return attempt != null && id.equals(attempt.getAppAttemptId()) ? attempt : null;
  }
}

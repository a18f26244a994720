// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * Limits on the part of one application, and of all applications of one user, that the engine receives, so that none
 * can take the time of all others. The diagnostics of an application beyond a limit show that.
 */
public enum Cap {
  /** Request keys: the first ones in YARN's order, by priority and allocation request ID. */
  REQUEST_KEYS(2000, 10_000, "request keys (priority and allocation request ID)",
      "while the engine schedules, further requests wait until earlier ones are served."),
  /** Names of nodes and racks in requests: MapReduce asks once for each node and rack with a part of its input. */
  LOCALITIES(10_000, Cap.OF_USER, "names of nodes and racks in the requests",
      "the engine does not place requests by the other names."),
  /** Names of nodes and racks on a blacklist. */
  BLACKLISTED_NAMES(2000, Cap.OF_USER, "blacklisted names",
      "no container starts on the other nodes, but each attempt to place one there costs time.");

  /** How many of a user, at most. */
  public static final int OF_USER = 20_000;
  private static final String BEGIN = "Treadle's engine receives at most ";

  /** How many of an application. */
  public final int ofApplication;
  /** How many of all applications of a user. */
  public final int ofUser;
  private final String text;

  Cap(int ofApplication, int ofUser, String what, String effect) {
    this.ofApplication = ofApplication;
    this.ofUser = ofUser;
    text = BEGIN + ofApplication + " " + what + " of an application and " + ofUser
        + " of all applications of a user. Here there are more: " + effect;
  }

  /**
   * Shows which limits an application exceeds, unless its diagnostics show something else; removes the text when it
   * exceeds none.
   *
   * @param exceeded the limits that it exceeds
   * @param shown the return value of the last call for this attempt, null before the first one
   * @return the text to show, empty for nothing
   */
  public static String report(RMContext context, FiCaSchedulerApp attempt, Set<Cap> exceeded, String shown) {
    String text = exceeded.stream().map(cap -> cap.text).collect(Collectors.joining(" "));
    RMApp app = text.isEmpty() && text.equals(shown) ? null : context.getRMApps().get(attempt.getApplicationId());
    if (app != null) {
      String now = String.valueOf(app.getDiagnostics()); // an application may have none
      if (now.isEmpty() || now.startsWith(BEGIN)) {
        AttemptDiagnostics.report(app, attempt.getApplicationAttemptId(), text.isEmpty() ? null : text);
      }
    }
    return text;
  }
}

package io.treadle.shim;

import io.treadle.shim.constraints.Requirements;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * Limits on the part of one application that engines receive, so that no application can take the time of all others.
 * The diagnostics of an application beyond a limit show that.
 */
public final class Caps {
  /** Request keys with outstanding requests: the first ones in YARN's order, by priority and allocation request ID. */
  public static final int REQUEST_KEYS = 2000;
  /** Names of nodes and racks on a blacklist. */
  public static final int BLACKLISTED_NAMES = 2000;

  private static final String KEYS = "Treadle's engine receives at most " + REQUEST_KEYS
      + " request keys (priority and allocation request ID) of an application. This application has more: while the"
      + " engine schedules, further requests wait until earlier ones are served. ";
  private static final String NAMES = "Treadle's engine receives at most " + BLACKLISTED_NAMES
      + " blacklisted names of an application. This application has more: no container starts on the other nodes, but"
      + " each attempt to place one there costs time. ";

  private Caps() {
  }

  /**
   * Shows what of an application exceeds a limit, unless its diagnostics show something else; takes that back when
   * nothing does.
   *
   * @param shown the return value of the last call for this attempt, null before the first one
   * @return what is to be shown, empty for nothing
   */
  public static String report(RMContext context, FiCaSchedulerApp attempt, boolean keys, boolean names, String shown) {
    String text = ((keys ? KEYS : "") + (names ? NAMES : "")).trim();
    RMApp app = text.isEmpty() && text.equals(shown) ? null : context.getRMApps().get(attempt.getApplicationId());
    if (app != null) {
      String now = app.getDiagnostics().toString();
      if (now.isEmpty() || now.startsWith(KEYS.trim()) || now.startsWith(NAMES.trim())) {
        Requirements.report(app, attempt.getApplicationAttemptId(), text.isEmpty() ? null : text);
      }
    }
    return text;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;

/**
 * What applications should know, such as that no node can serve them, shown as the diagnostics of their attempts. An
 * object has what one engine says, until the engine takes it back; one thread.
 */
public final class AttemptDiagnostics {
  /** Users read who speaks: what follows is the engine's text. */
  static final String SPEAKER = "Treadle's scheduling engine: ";

  private Map<ApplicationAttemptId, String> shown = new HashMap<>();

  /** Shows the engine's new texts, in place of the previous ones. */
  void show(RMContext context, Map<ApplicationAttemptId, String> said) {
    shown.forEach((id, text) -> {
      RMApp app = context.getRMApps().get(id.getApplicationId());
      // others may have written there since
      if (!said.containsKey(id) && app != null && text.contentEquals(app.getDiagnostics())) {
        report(app, id, null);
      }
    });
    said.forEach((id, text) -> report(context.getRMApps().get(id.getApplicationId()), id, text));
    shown = new HashMap<>(said);
  }

  /**
   * Shows a text as the diagnostics of an attempt that has its master, managed or not, until other ones come. Takes no
   * lock: commits hold the scheduler's, and other threads hold the application's and wait for that.
   */
  public static void report(RMApp app, ApplicationAttemptId id, String text) {
    RMAppAttempt attempt = app == null ? null : app.getCurrentAppAttempt();
    if (attempt != null && id.equals(attempt.getAppAttemptId())
        && (attempt.getMasterContainer() != null || attempt.getSubmissionContext().getUnmanagedAM())) {
      attempt.updateAMLaunchDiagnostics(text == null ? null : Printable.line(text));
    }
  }
}

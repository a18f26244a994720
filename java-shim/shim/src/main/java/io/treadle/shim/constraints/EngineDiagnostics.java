// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * What one engine has said that applications should know, such as that no node can serve them: shown as the diagnostics
 * of attempts until the engine takes it back. One thread.
 */
public final class EngineDiagnostics {
  /** Users read who speaks: what follows is the engine's text. */
  public static final String SPEAKER = "Treadle's scheduling engine: ";

  private Map<ApplicationAttemptId, String> shown = new HashMap<>();

  /** Shows what the engine says now, in place of what it said before. */
  public void show(RMContext context, Map<ApplicationAttemptId, String> said) {
    shown.forEach((id, text) -> {
      RMApp app = context.getRMApps().get(id.getApplicationId());
      // others may have written there since
      if (!said.containsKey(id) && app != null && text.contentEquals(app.getDiagnostics())) {
        Requirements.report(app, id, null);
      }
    });
    said.forEach((id, text) -> {
      RMApp app = context.getRMApps().get(id.getApplicationId());
      if (Requirements.of(app).error() == null) {
        Requirements.report(app, id, text);
      }
    });
    shown = new HashMap<>(said);
  }
}

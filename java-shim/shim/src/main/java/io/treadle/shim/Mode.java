// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.util.Locale;

/** What Treadle may do: {@code yarn.scheduler.treadle.mode}. */
public enum Mode {
  /** The engine's proposals are committed while it holds the lease. */
  ENFORCE,
  /** The engine's proposals are compared with what the stock scheduler does; nothing is committed. */
  OBSERVE_ONLY,
  /** Nothing is sent and no sidecar runs: the stock scheduler. */
  OFF;

  /** As written in yarn-site.xml. */
  public String text() {
    return name().toLowerCase(Locale.ROOT);
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

import java.util.Locale;

/** Who starts the sidecar: {@code yarn.scheduler.treadle.sidecar}. */
public enum SidecarKind {
  /** The shim, as a child process of the RM. */
  MANAGED,
  /** Somebody else (systemd, a container); the shim connects to it. */
  EXTERNAL;

  /** As written in yarn-site.xml. */
  public String text() {
    return name().toLowerCase(Locale.ROOT);
  }
}

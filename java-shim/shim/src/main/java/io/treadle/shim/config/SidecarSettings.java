// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

import java.io.File;

/** The part of {@link ShimConfig} for how the sidecar is started: managed or external. Immutable. */
public final class SidecarSettings {
  public final SidecarKind kind;
  /** The executable of a managed sidecar. */
  public final String pythonCommand;
  /** The path of treadle.yaml for a managed sidecar, empty for its defaults. */
  public final String configFile;
  /** Where a managed sidecar's standard error goes. */
  public final File logFile;
  /** How long a managed sidecar may take to become ready, milliseconds. */
  public final int startTimeoutMs;
  /** Where an external sidecar writes how to connect; empty in managed mode. */
  public final String connectionFile;
  /** The user that an external sidecar runs as; empty if it is the RM's. */
  public final String user;

  private SidecarSettings(SidecarKind kind, String pythonCommand, String configFile, File logFile, int startTimeoutMs,
      String connectionFile, String user) {
    this.kind = kind;
    this.pythonCommand = pythonCommand;
    this.configFile = configFile;
    this.logFile = logFile;
    this.startTimeoutMs = startTimeoutMs;
    this.connectionFile = connectionFile;
    this.user = user;
  }

  static SidecarSettings read(Settings settings) throws BadSettingException {
    SidecarKind kind = settings.oneOf(ShimConfig.SIDECAR, SidecarKind.class, SidecarKind.MANAGED);
    String command = settings.text(ShimConfig.PYTHON_COMMAND, "treadle");
    String connectionFile = settings.text(ShimConfig.CONNECTION_FILE, "");
    if (kind == SidecarKind.EXTERNAL && connectionFile.isEmpty()) {
      throw new BadSettingException(ShimConfig.CONNECTION_FILE + " is not set, but " + ShimConfig.SIDECAR
          + " is 'external': set it to the path given to 'treadle sidecar --external --connection-file'");
    }
    String user = settings.text(ShimConfig.SIDECAR_USER, "");
    if (kind == SidecarKind.MANAGED && !user.isEmpty()) {
      throw new BadSettingException(ShimConfig.SIDECAR_USER + " is '" + user + "', but " + ShimConfig.SIDECAR
          + " is 'managed': such a sidecar runs as the ResourceManager's user. Remove the one or set the other to"
          + " 'external'");
    }
    String logFile = settings.text(ShimConfig.SIDECAR_LOG_FILE, "");
    return new SidecarSettings(kind, command, settings.text(ShimConfig.CONFIG_FILE, ""),
        logFile.isEmpty() ? ShimConfig.defaultLogFile() : new File(logFile),
        settings.number(ShimConfig.SIDECAR_START_TIMEOUT_MS, 300_000, 100, 3_600_000), connectionFile, user);
  }
}

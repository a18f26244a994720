// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.config.Mode;
import io.treadle.shim.config.ShimConfig;

/** What the link goes by until the next {@code -refreshQueues}. Immutable. */
public final class LinkSettings {
  /** The checked settings. */
  public final ShimConfig config;
  /** Raised by each {@code -refreshQueues}: makes the engine read its own settings again. */
  public final int configuration;

  /** Settings, and the number that is raised by each refresh. */
  public LinkSettings(ShimConfig config, int configuration) {
    this.config = config;
    this.configuration = configuration;
  }

  /** The settings after a refresh. */
  public LinkSettings refreshed(ShimConfig refreshed) {
    return new LinkSettings(refreshed, configuration + 1);
  }

  boolean off() {
    return config.mode == Mode.OFF;
  }

  boolean enforce() {
    return config.mode == Mode.ENFORCE;
  }
}

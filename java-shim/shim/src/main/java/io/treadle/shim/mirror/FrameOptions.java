// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.ShimConfig;

/** The link's options for each frame. */
public final class FrameOptions {
  /** Whether nothing of the answer will be committed. */
  public final boolean observe;
  /** A number raised by each -refreshQueues. */
  public final int configuration;
  /** The most proposals that the answer may hold, but for the end of its last transaction. */
  public final int limit;
  /** The settings that the frame says. */
  public final ShimConfig config;

  /** Options of the next frame: see the fields. */
  public FrameOptions(boolean observe, int configuration, int limit, ShimConfig config) {
    this.observe = observe;
    this.configuration = configuration;
    this.limit = limit;
    this.config = config;
  }
}

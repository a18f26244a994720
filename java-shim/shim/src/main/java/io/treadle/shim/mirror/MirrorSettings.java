// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;

/** Bounds and times of a {@link Mirror}; fixed for its life. Tests set the bounds before that. */
public final class MirrorSettings {
  /** The longest frame, bytes. */
  public final int frameMaxBytes;
  /** Age of a node's last heartbeat from which on it is not used, milliseconds. */
  public final long staleAfterMs;
  /** In which time every node is looked at, marked or not, milliseconds. */
  public final long nodeReviewMs;
  /** In which time every application is looked at, marked or not, milliseconds. */
  public final long applicationReviewMs;
  /** How many names and indices may be given out after a snapshot before the next one. */
  int indexLimit = 1 << 16;
  /** How many request keys, localities and blacklisted names of a user the engine receives. */
  int ofUser = Cap.OF_USER;

  /** Settings with the usual bounds; review times of 0 review everything in each frame. */
  public MirrorSettings(int frameMaxBytes, long staleAfterMs, long nodeReviewMs, long applicationReviewMs) {
    this.frameMaxBytes = frameMaxBytes;
    this.staleAfterMs = staleAfterMs;
    this.nodeReviewMs = nodeReviewMs;
    this.applicationReviewMs = applicationReviewMs;
  }
}

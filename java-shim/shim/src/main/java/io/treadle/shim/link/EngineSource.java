// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.IOException;

/**
 * Where the link gets its engines from: a sidecar started by us, one started by others, or a class. Used by the link
 * thread only.
 */
public interface EngineSource {
  /**
   * An engine to talk to.
   *
   * @param timeoutMs how long a call of it may take, milliseconds
   * @return the engine, or null if there is none yet: ask again after a little while, or when woken
   * @throws IOException if there is none, and why; ask again with growing pauses
   */
  Engine connect(int timeoutMs) throws IOException;

  /** The engine that was given last answered as it should. Does nothing unless somebody counts. */
  default void answered() {
  }

  /** The engine that was given last failed and has been closed. Does nothing unless somebody counts. */
  default void failed() {
  }

  /**
   * The administrator refreshed the configuration: what was given up may be tried again. Does nothing where nothing is
   * ever given up.
   */
  default void retry() {
  }

  /**
   * Ends whatever was started, and waits for its end, but only for seconds. Does nothing if there is nothing to end.
   */
  default void stop() {
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.IOException;

/** A decision engine as the link sees it: the Python sidecar over Py4J, or a stub in the same JVM. */
public interface Engine extends AutoCloseable {
  /**
   * Hands over one frame and waits for the answer, no longer than the read time-out it was made with.
   *
   * @param frame a frame as in docs/wire-format.md
   * @return the proposal frame
   * @throws IOException if there is no answer, or one that breaks a limit
   */
  byte[] decide(byte[] frame) throws IOException;

  /** Ends it, and a {@link #decide} that goes on in another thread. Any thread, more than once. */
  @Override
  void close();
}

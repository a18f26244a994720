// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.ShimConfig;
import java.io.IOException;

/**
 * Where the link gets its engines from: a sidecar started by us, one started by others, or a class. Used by the link
 * thread only.
 */
public interface EngineSource {
  /**
   * Engines in this JVM instead of a sidecar, for benchmarks and tests: a new object for each conversation, of a class
   * with a public constructor without parameters.
   */
  static EngineSource ofClass(String name) {
    return timeoutMs -> {
      try {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        return Class.forName(name, true, loader).asSubclass(Engine.class).getDeclaredConstructor().newInstance();
      } catch (ReflectiveOperationException | ClassCastException | LinkageError e) {
        throw new IOException(ShimConfig.ENGINE_CLASS + " is '" + name + "', which cannot be used: " + e
            + ". Name a class that implements " + Engine.class.getName()
            + " and has a public constructor without parameters");
      }
    };
  }

  /**
   * An engine to talk to.
   *
   * @param timeoutMs how long a call of it may take, milliseconds
   * @return the engine, or null if there is none yet: ask again after a little while, or when woken
   * @throws IOException if there is none, and why; ask again with growing pauses
   */
  Engine connect(int timeoutMs) throws IOException;

  /** The last engine returned a valid answer. By default does nothing. */
  default void answered() {
  }

  /** The last engine failed and has been closed. By default does nothing. */
  default void failed() {
  }

  /** The administrator refreshed the configuration: retry after giving up. By default does nothing. */
  default void retry() {
  }

  /**
   * Ends whatever was started, and waits for its end, but only for seconds. Does nothing if there is nothing to end.
   */
  default void stop() {
  }
}

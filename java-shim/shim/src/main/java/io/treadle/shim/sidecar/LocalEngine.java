// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.Engine;
import io.treadle.shim.link.EngineSource;
import java.io.IOException;

/**
 * An engine in this JVM instead of a sidecar, for benchmarks and tests: a new object for each conversation.
 */
public final class LocalEngine implements EngineSource {
  private final String className;

  /** Engines of a class with a public constructor without parameters. */
  public LocalEngine(String className) {
    this.className = className;
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Class<? extends Engine> engine = Class.forName(className, true, loader).asSubclass(Engine.class);
      return engine.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException | ClassCastException | LinkageError e) {
      throw new IOException(ShimConfig.ENGINE_CLASS + " is '" + className + "', which cannot be used: " + e
          + ". Name a class that implements " + Engine.class.getName()
              + " and has a public constructor without parameters");
    }
  }
}

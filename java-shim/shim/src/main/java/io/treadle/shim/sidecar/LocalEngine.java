package io.treadle.shim.sidecar;

import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.link.Engine;
import io.treadle.shim.link.EngineSource;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.function.Supplier;

/**
 * An engine in this JVM instead of a sidecar, for benchmarks and tests: a new object for each conversation. Of several
 * engines each object gets its engine's name.
 */
public final class LocalEngine implements EngineSource {
  private final String className;
  private final Supplier<String> name;

  /** Engines of a class with a public constructor that takes a name, which is empty for the only engine, or nothing. */
  public LocalEngine(String className, Supplier<String> name) {
    this.className = className;
    this.name = name;
  }

  @Override
  public Engine connect(int timeoutMs) throws IOException {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Class<? extends Engine> engine = Class.forName(className, true, loader).asSubclass(Engine.class);
      for (Constructor<?> constructor : engine.getConstructors()) {
        if (Arrays.equals(constructor.getParameterTypes(), new Class<?>[] {String.class})) {
          return (Engine) constructor.newInstance(name.get());
        }
      }
      return engine.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException | ClassCastException | LinkageError e) {
      throw new IOException(ShimConfig.ENGINE_CLASS + " is '" + className + "', which cannot be used: " + e
          + ". Name a class that implements " + Engine.class.getName()
              + " and has a public constructor without parameters");
    }
  }
}

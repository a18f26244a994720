package io.treadle.shim.link;

import java.io.IOException;

/** An engine whose failures, of any kind, are told from those of the ResourceManager: they are IOExceptions. */
final class WatchedEngine implements Engine {
  private final Engine engine;

  WatchedEngine(Engine engine) {
    this.engine = engine;
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    try {
      return engine.decide(frame);
    } catch (RuntimeException | Error e) {
      throw new IOException("the engine failed: " + e, e);
    }
  }

  @Override
  public void close() {
    engine.close();
  }
}

package io.treadle.shim.mirror;

/** What the link says with each frame. */
public final class FrameOptions {
  /** Whether nothing of the answer will be committed. */
  public final boolean observe;
  /** A number raised by each -refreshQueues. */
  public final int configuration;
  /** The most proposals that the answer may hold. */
  public final int limit;
  /** The mode's name. */
  public final String mode;
  /** The lease time, milliseconds. */
  public final long leaseMs;
  /** Whether there must not be a snapshot: nothing is written if one is due. */
  public final boolean noSnapshot;

  /**
   * Options of the next frame.
   *
   * @param observe nothing of the answer will be committed
   * @param configuration raised by each -refreshQueues
   * @param limit the most proposals that the answer may hold
   * @param mode the setting {@code mode}, as the administrator wrote it
   * @param leaseMs the setting {@code lease-ms}
   */
  public FrameOptions(boolean observe, int configuration, int limit, String mode, long leaseMs) {
    this(observe, configuration, limit, mode, leaseMs, false);
  }

  private FrameOptions(boolean observe, int configuration, int limit, String mode, long leaseMs, boolean noSnapshot) {
    this.observe = observe;
    this.configuration = configuration;
    this.limit = limit;
    this.mode = mode;
    this.leaseMs = leaseMs;
    this.noSnapshot = noSnapshot;
  }

  /** The same for a frame that must not be a snapshot. */
  public FrameOptions withoutSnapshot() {
    return new FrameOptions(observe, configuration, limit, mode, leaseMs, true);
  }
}

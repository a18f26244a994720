package io.treadle.shim.journal;

/** One mirror's place in a {@link Journal}. Mirrors may be on threads of their own; none sees that others read. */
public final class Feed {
  private final Batches batches;
  /** The next batch, null if a snapshot is to come first. Guarded by {@link #batches}. */
  Batches.Batch next;

  Feed(Batches batches) {
    this.batches = batches;
  }

  /**
   * What changed since the last call; or that everything may have, if this is the first one, if marks were forgotten, or
   * if this feed lagged too far behind others. What changes from now on is for the next call.
   */
  public Changes take() {
    return batches.take(this);
  }

  /** Has {@link #take} say next that everything may have changed, and nothing kept for this feed until then. */
  public void snapshotNeeded() {
    batches.leave(this);
  }
}

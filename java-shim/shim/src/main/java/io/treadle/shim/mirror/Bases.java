package io.treadle.shim.mirror;

import java.util.TreeMap;

/**
 * The frames that an engine may still decide on, with the time and the count of commits as of which each was written.
 * Indices mean the same in all of them: a snapshot begins anew. Used by the link thread only.
 */
final class Bases {
  /** The most frames that an engine may be behind. */
  private static final int MOST = 1 << 13;

  private final TreeMap<Long, Base> written = new TreeMap<>();
  private Base latest = new Base(0, 0);

  /** When a frame was written and how many commits there had been. */
  static final class Base {
    final long ms;
    final long commits;

    Base(long ms, long commits) {
      this.ms = ms;
      this.commits = commits;
    }
  }

  /** Forgets all of them. */
  void clear() {
    written.clear();
  }

  /** A frame was written; it is the latest from now on. */
  void wrote(long sequence, boolean snapshot, long monotonicMs, long commits) {
    latest = new Base(monotonicMs, commits);
    if (snapshot) {
      written.clear();
    }
    written.put(sequence, latest);
    if (written.size() > MOST) {
      written.pollFirstEntry();
    }
  }

  /** Whether an engine may have decided on a frame. */
  boolean has(long sequence) {
    return written.containsKey(sequence);
  }

  /** The engine decided on a frame, and will not on an earlier one; {@link #latest} is that frame from now on. */
  void decidedOn(long sequence) {
    Base base = written.get(sequence);
    if (base != null) {
      latest = base;
      written.headMap(sequence).clear();
    }
  }

  /** The frame that the engine decided on, or the last one written if that was later. */
  Base latest() {
    return latest;
  }
}

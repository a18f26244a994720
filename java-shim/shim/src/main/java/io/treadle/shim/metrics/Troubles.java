// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import io.treadle.shim.Printable;
import java.time.Instant;
import java.util.EnumMap;
import java.util.Map;
import java.util.function.LongSupplier;

/** Current problems, one text a kind; each stays until it is reported as mended. Any thread. */
public final class Troubles {
  /** Who has trouble; each knows when its own is mended. */
  public enum Kind {
    /** A key in yarn-site.xml, or a release that does not fit. */
    SETTINGS,
    /** No decisions come. */
    LINK,
    /** What the engine says of its own settings, parts and failures. */
    ENGINE,
    /** The engine places nothing. */
    STARVING
  }

  private final LongSupplier clockMs;
  private final Map<Kind, Trouble> troubles = new EnumMap<>(Kind.class);

  /** Nothing is wrong yet; {@code clockMs} gives milliseconds since 1970. */
  Troubles(LongSupplier clockMs) {
    this.clockMs = clockMs;
  }

  /** Notes what went wrong just now, in place of an earlier text of the kind; an empty text mends it. */
  public synchronized void note(Kind kind, String text) {
    if (text.isEmpty()) {
      troubles.remove(kind);
    } else {
      troubles.put(kind, new Trouble(Printable.brief(text), clockMs.getAsLong()));
    }
  }

  /** The same of something that goes on: a text that is there already keeps its time. */
  public synchronized void goesOn(Kind kind, String text) {
    Trouble known = troubles.get(kind);
    if (known == null || !known.text.equals(Printable.brief(text))) {
      note(kind, text);
    }
  }

  /** The latest of what is not mended, empty if all is well. */
  synchronized String text() {
    Trouble latest = latest();
    return latest == null ? "" : latest.text;
  }

  /** When that was, as {@code 2026-01-31T12:00:00Z}; empty if all is well. */
  synchronized String time() {
    Trouble latest = latest();
    return latest == null ? "" : Instant.ofEpochMilli(latest.timeMs).toString();
  }

  private Trouble latest() {
    Trouble latest = null;
    for (Trouble trouble : troubles.values()) {
      if (latest == null || trouble.timeMs >= latest.timeMs) {
        latest = trouble;
      }
    }
    return latest;
  }

  private static final class Trouble {
    final String text;
    final long timeMs;

    Trouble(String text, long timeMs) {
      this.text = text;
      this.timeMs = timeMs;
    }
  }
}

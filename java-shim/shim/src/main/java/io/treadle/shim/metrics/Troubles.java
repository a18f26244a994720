// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import io.treadle.shim.Printable;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.LongSupplier;
import org.apache.hadoop.thirdparty.com.google.common.collect.Iterables;

/** Current problems, one text a kind; each stays until it is reported as resolved. Any thread. */
public final class Troubles {
  /** The reporting component; each reports the end of its own problems. */
  public enum Kind {
    /** A key in yarn-site.xml, or a release that does not fit. */
    SETTINGS,
    /** No decisions come. */
    LINK,
    /** The engine's report about its own settings, parts and failures. */
    ENGINE,
    /** The engine places nothing. */
    STARVING
  }

  private final LongSupplier clockMs;
  /** The latest last; and when each came. */
  private final Map<Kind, String> texts = new LinkedHashMap<>();
  private final Map<Kind, Instant> times = new LinkedHashMap<>();

  /** Nothing is wrong yet; {@code clockMs} gives milliseconds since 1970. */
  Troubles(LongSupplier clockMs) {
    this.clockMs = clockMs;
  }

  /** Notes what went wrong just now, in place of an earlier text of the kind; an empty text mends it. */
  public synchronized void note(Kind kind, String text) {
    texts.remove(kind);
    times.remove(kind);
    if (!text.isEmpty()) {
      texts.put(kind, Printable.brief(text));
      times.put(kind, Instant.ofEpochMilli(clockMs.getAsLong()));
    }
  }

  /** The same of something that goes on: a text that is there already keeps its time. */
  public synchronized void goesOn(Kind kind, String text) {
    if (!Printable.brief(text).equals(texts.get(kind))) {
      note(kind, text);
    }
  }

  /** The latest unresolved problem, empty if there is none. */
  synchronized String text() {
    return Iterables.getLast(texts.values(), "");
  }

  /** When that was, as {@code 2026-01-31T12:00:00Z}; empty if all is well. */
  synchronized String time() {
    return times.isEmpty() ? "" : Iterables.getLast(times.values()).toString();
  }
}

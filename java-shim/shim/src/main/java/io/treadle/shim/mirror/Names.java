// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Printable;
import io.treadle.shim.wire.FrameWriter;
import java.util.HashMap;
import java.util.Map;

/** Texts that were sent since the last snapshot, by their index. */
final class Names {
  /** A longer text is cut off: only names of applications and tags, which users make up, can be that long. */
  static final int MAX_CHARS = 1000;

  private final FrameWriter writer;
  private final Map<String, Integer> indices = new HashMap<>();

  /** New names for a snapshot, of which the first is the empty text. */
  Names(FrameWriter writer) {
    this.writer = writer;
    index("");
  }

  /** The index of a text, which is sent first if it is new; null is the empty text. */
  int index(String text) {
    String key = text == null ? "" : Printable.first(text, MAX_CHARS);
    Integer known = indices.get(key);
    if (known != null) {
      return known;
    }
    int index = indices.size();
    indices.put(key, index);
    writer.text(key);
    return index;
  }

  /** Whether a text has an index. */
  boolean has(String text) {
    return text == null || indices.containsKey(Printable.first(text, MAX_CHARS));
  }

  int size() {
    return indices.size();
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.hadoop.thirdparty.com.google.common.collect.Iterables;

/** The schema of the wire as {@code python -m treadle_lab.docs.wire} prints it: one source for both languages. */
final class WireSchema {
  private static final JsonNode ROOT = read();

  private WireSchema() { }

  private static JsonNode read() {
    try (InputStream file = WireSchema.class.getResourceAsStream("schema.json");
        Scanner text = new Scanner(file, StandardCharsets.UTF_8.name())) {
      return Json.object(text.useDelimiter("\\A").next(), "schema.json of the wire");
    } catch (IOException e) {
      throw new IllegalStateException("schema.json of the wire cannot be read", e);
    }
  }

  static int version() {
    return ROOT.get("wire").asInt();
  }

  static int flag(String name) {
    return ROOT.get("flags").get(name).asInt();
  }

  /** The code of a fate: its place among the fates. */
  static int fate(String name) {
    int code = Iterables.indexOf(fates(), fate -> fate.asText().equals(name));
    if (code < 0) {
      throw new IllegalArgumentException("no fate of the wire: " + name);
    }
    return code;
  }

  /** The fates' names, in the order of their codes. */
  static JsonNode fates() {
    return ROOT.get("fates");
  }

  /** The section of a name: its {@code kind}, whether it is {@code whole}, and its {@code columns}. */
  static JsonNode section(String name) {
    return Iterables.find(sections(), section -> section.get("name").asText().equals(name));
  }

  static JsonNode sections() {
    return ROOT.get("sections");
  }
}

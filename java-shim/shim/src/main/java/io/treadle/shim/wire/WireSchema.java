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
  static final JsonNode ROOT = read();

  private WireSchema() { }

  private static JsonNode read() {
    try (InputStream file = WireSchema.class.getResourceAsStream("schema.json");
        Scanner text = new Scanner(file, StandardCharsets.UTF_8.name())) {
      return Json.object(text.useDelimiter("\\A").next(), "schema.json of the wire");
    } catch (IOException e) {
      throw new IllegalStateException("schema.json of the wire cannot be read", e);
    }
  }

  static int flag(String name) {
    return ROOT.get("flags").get(name).asInt();
  }

  /** The code of a fate: its place among the fates. */
  static int fate(String name) {
    int code = Iterables.indexOf(ROOT.get("fates"), fate -> fate.asText().equals(name));
    if (code < 0) {
      throw new IllegalArgumentException("no fate of the wire: " + name);
    }
    return code;
  }

  /** The section of a name: its {@code kind}, whether it is {@code whole}, and its {@code columns}. */
  static JsonNode section(String name) {
    return Iterables.find(ROOT.get("sections"), section -> section.get("name").asText().equals(name));
  }
}

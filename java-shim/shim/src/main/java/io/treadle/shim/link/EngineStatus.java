// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.Printable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The status text of an answer, read: a few short texts and numbers, whatever it says. Users name what some are about.
 */
public final class EngineStatus {
  private static final int TEXTS = 20;
  private static final int APPLICATIONS = 16;
  private static final int ENGINES = 8192;
  /** The types of applications whose keys an engine may get: those with plug-ins that speak with the plan listener. */
  private static final List<String> KEYED = Collections.unmodifiableList(Arrays.asList("TEZ", "SPARK"));

  /** The policy's name. */
  final String policy;
  /** Whether it shares the cluster otherwise than the queues' capacities say. */
  public final boolean overridesGuarantees;
  /** Whether it serves the applications of a queue otherwise than the queue's own order says. */
  public final boolean overridesOrder;
  /** What is wrong with the engine's settings, empty if nothing. */
  final String error;
  /** What it knows of the jobs that run, in a few words; empty if nothing is remembered. */
  final String learned;
  /** What it waits for on purpose while asks could be served, empty for nothing. */
  public final String waitsFor;
  /** What an administrator should know, at most 20. */
  final List<String> warnings;
  /** Of TEZ and SPARK those types of the applications whose keys the engine wants. */
  final Set<String> keysFor;
  /** A JSON object about several engines, at most 8,192 characters; empty if there is none, or a longer one. */
  final String engines;
  /** What applications should know, by their index; at most 16. */
  public final Map<Integer, String> diagnostics;

  /**
   * Reads {@code {"policy": text, "overrides_guarantees": true or false, "overrides_order": true or false,
   * "error": text or null, "learned": text, "waits_for": text, "keys_for": [text, ...],
   * "diagnostics": [[application, text], ...], "engines": {...}, "warnings": [text, ...]}}.
   *
   * @throws IOException if it is no JSON object, or a hostile one
   */
  EngineStatus(String text) throws IOException {
    JsonNode root = Json.object(text, "the status of an answer");
    this.policy = Printable.brief(root.path("policy").asText(""));
    this.overridesGuarantees = root.path("overrides_guarantees").asBoolean(false);
    this.overridesOrder = root.path("overrides_order").asBoolean(false);
    this.error = root.path("error").isTextual() ? Printable.brief(root.path("error").asText()) : "";
    this.learned = Printable.brief(root.path("learned").asText(""));
    this.waitsFor = Printable.brief(root.path("waits_for").asText(""));
    this.warnings = texts(root.path("warnings"));
    this.keysFor = texts(root.path("keys_for")).stream()
        .map(type -> type.toUpperCase(Locale.ROOT)).filter(KEYED::contains)
        .collect(Collectors.toSet());
    String said = root.path("engines").isObject() ? root.path("engines").toString() : "";
    this.engines = said.length() > ENGINES ? "" : said;
    this.diagnostics = byApplication(root.path("diagnostics"));
  }

  private static List<String> texts(JsonNode texts) {
    List<String> found = new ArrayList<>();
    for (JsonNode text : texts) {
      if (found.size() < TEXTS) {
        found.add(Printable.brief(text.asText()));
      }
    }
    return found;
  }

  /** Reads {@code [[application, text], ...]}; whatever is not of this form is left out. */
  private static Map<Integer, String> byApplication(JsonNode rows) {
    Map<Integer, String> found = new TreeMap<>();
    for (JsonNode row : rows) {
      boolean isPair = row.isArray() && row.size() == 2 && row.get(0).isInt();
      if (found.size() < APPLICATIONS && isPair && row.get(0).asInt() >= 0) {
        found.put(row.get(0).asInt(), Printable.brief(row.get(1).asText()));
      }
    }
    return found;
  }
}

package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.Printable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The status text of an answer, read. */
final class EngineStatus {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int WARNINGS = 20;
  private static final int TYPES = 20;
  private static final int APPLICATIONS = 16;
  private static final int FIGURES = 32;
  private static final int TEXT_CHARACTERS = 1000;

  /** The policy's name. */
  final String policy;
  /** Whether it shares the cluster otherwise than the queues' capacities say. */
  final boolean overridesGuarantees;
  /** Whether it serves the applications of a queue otherwise than the queue's own order says. */
  final boolean overridesOrder;
  /** What is wrong with the engine's settings, empty if nothing. */
  final String error;
  /** What it knows of the jobs that run, in a few words; empty if nothing is remembered. */
  final String learned;
  /** What it waits for on purpose while asks could be served, empty for nothing. */
  final String waitsFor;
  /** What an administrator should know, at most 20. */
  final List<String> warnings;
  /** The types, in upper case, of the applications whose keys the engine wants. */
  final Set<String> keysFor;
  /** The engines that there are, if this is the first of several; a missing node if there is one. */
  final JsonNode engines;
  /** Applications whose asks are held back on purpose, by their index, and for what; at most 16. */
  final Map<Integer, String> holds;
  /** What applications should know, by their index; at most 16. */
  final Map<Integer, String> diagnostics;
  /** Applications that another engine should serve, by their index, and why; at most 16. */
  final Map<Integer, String> givenUp;
  /** What one of several engines measures of itself, by name; at most 32. */
  final Map<String, Long> figures;

  private EngineStatus(JsonNode root, List<String> warnings, Set<String> keysFor) {
    this.policy = cut(root.path("policy").asText(""));
    this.overridesGuarantees = root.path("overrides_guarantees").asBoolean(false);
    this.overridesOrder = root.path("overrides_order").asBoolean(false);
    this.error = root.path("error").isTextual() ? cut(root.path("error").asText()) : "";
    this.learned = cut(root.path("learned").asText(""));
    this.waitsFor = cut(root.path("waits_for").asText(""));
    this.warnings = warnings;
    this.keysFor = keysFor;
    this.engines = root.path("engines");
    this.holds = byApplication(root.path("holds"));
    this.diagnostics = byApplication(root.path("diagnostics"));
    this.givenUp = byApplication(root.path("given_up"));
    this.figures = figures(root.path("figures"));
  }

  /**
   * Reads {@code {"policy": text, "overrides_guarantees": true or false, "overrides_order": true or false,
   * "configuration": int, "error": text or null, "learned": text, "waits_for": text, "keys_for": [text, ...],
   * "holds": [[application, text], ...], "diagnostics": [[application, text], ...], "given_up": [[application, text], ...],
   * "figures": {name: int, ...}, "engines": [...],
   * "warnings": [text, ...]}}.
   *
   * @throws IOException if it is no JSON object
   */
  static EngineStatus parse(String text) throws IOException {
    JsonNode root;
    try {
      root = JSON.readTree(text);
    } catch (StackOverflowError e) {
      // for brackets within brackets, in Jackson before 2.13
      throw new IOException("an answer whose status is nested too deeply");
    }
    if (root == null || !root.isObject()) {
      throw new IOException("an answer whose status is no JSON object");
    }
    List<String> warnings = new ArrayList<>();
    for (JsonNode warning : root.path("warnings")) {
      if (warnings.size() < WARNINGS) {
        warnings.add(cut(warning.asText()));
      }
    }
    Set<String> keysFor = new HashSet<>();
    for (JsonNode type : root.path("keys_for")) {
      if (keysFor.size() < TYPES) {
        keysFor.add(cut(type.asText()).toUpperCase(Locale.ROOT));
      }
    }
    return new EngineStatus(root, warnings, keysFor);
  }

  /** Reads {@code [[application, text], ...]}; whatever is not of this form is left out. */
  private static Map<Integer, String> byApplication(JsonNode rows) {
    Map<Integer, String> found = new TreeMap<>();
    for (JsonNode row : rows) {
      if (found.size() < APPLICATIONS && row.isArray() && row.size() == 2 && row.get(0).isInt() && row.get(0).asInt() >= 0) {
        found.put(row.get(0).asInt(), cut(row.get(1).asText()));
      }
    }
    return found;
  }

  private static Map<String, Long> figures(JsonNode said) {
    Map<String, Long> found = new TreeMap<>();
    said.fields().forEachRemaining(field -> {
      if (found.size() < FIGURES && field.getValue().isIntegralNumber() && field.getValue().canConvertToLong()) {
        found.put(field.getKey(), field.getValue().asLong());
      }
    });
    return found;
  }

  /** These texts go to the RM's log, and users name what some of them are about. */
  private static String cut(String text) {
    return Printable.line(Printable.cut(text, TEXT_CHARACTERS));
  }
}

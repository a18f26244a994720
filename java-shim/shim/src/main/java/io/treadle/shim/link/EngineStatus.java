package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.Printable;
import io.treadle.shim.engines.Roster;
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

/** The status text of an answer, read: a few short texts and numbers, whatever it says. Users name what some are about. */
public final class EngineStatus {
  private static final int TEXTS = 20;
  private static final int APPLICATIONS = 16;
  private static final int FIGURES = 32;
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
  /** The engines that there are, if this is the first of several; null if what it says cannot be used. */
  public final Roster engines;
  /** Why it cannot be used, else empty. */
  public final String enginesProblem;
  /** What applications should know, by their index; at most 16. */
  public final Map<Integer, String> diagnostics;
  /** Applications that another engine should serve, by their index, and why; at most 16. */
  public final Map<Integer, String> givenUp;
  /** What one of several engines measures of itself, by name; at most 32. */
  final Map<String, Long> figures;

  private EngineStatus(JsonNode root, Roster engines, String enginesProblem) {
    this.policy = Printable.brief(root.path("policy").asText(""));
    this.overridesGuarantees = root.path("overrides_guarantees").asBoolean(false);
    this.overridesOrder = root.path("overrides_order").asBoolean(false);
    this.error = root.path("error").isTextual() ? Printable.brief(root.path("error").asText()) : "";
    this.learned = Printable.brief(root.path("learned").asText(""));
    this.waitsFor = Printable.brief(root.path("waits_for").asText(""));
    this.warnings = texts(root.path("warnings"));
    this.keysFor = texts(root.path("keys_for")).stream().map(type -> type.toUpperCase(Locale.ROOT)).filter(KEYED::contains)
        .collect(Collectors.toSet());
    this.engines = engines;
    this.enginesProblem = enginesProblem;
    this.diagnostics = byApplication(root.path("diagnostics"));
    this.givenUp = byApplication(root.path("given_up"));
    this.figures = figures(root.path("figures"));
  }

  /**
   * Reads {@code {"policy": text, "overrides_guarantees": true or false, "overrides_order": true or false,
   * "error": text or null, "learned": text, "waits_for": text, "keys_for": [text, ...],
   * "diagnostics": [[application, text], ...], "given_up": [[application, text], ...],
   * "figures": {name: int, ...}, "engines": [...], "warnings": [text, ...]}}.
   *
   * @throws IOException if it is no JSON object, or a hostile one
   */
  static EngineStatus parse(String text) throws IOException {
    JsonNode root = Json.object(text, "the status of an answer");
    try {
      return new EngineStatus(root, Roster.parse(root.path("engines")), "");
    } catch (IllegalArgumentException e) {
      return new EngineStatus(root, null,
          Printable.brief("the roster of engines cannot be used, the old one goes on: " + e.getMessage()));
    }
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
      if (found.size() < APPLICATIONS && row.isArray() && row.size() == 2 && row.get(0).isInt() && row.get(0).asInt() >= 0) {
        found.put(row.get(0).asInt(), Printable.brief(row.get(1).asText()));
      }
    }
    return found;
  }

  private static Map<String, Long> figures(JsonNode said) {
    Map<String, Long> found = new TreeMap<>();
    said.fields().forEachRemaining(field -> {
      if (found.size() < FIGURES && field.getValue().isIntegralNumber() && field.getValue().canConvertToLong()) {
        found.put(Printable.brief(field.getKey()), field.getValue().asLong());
      }
    });
    return found;
  }
}

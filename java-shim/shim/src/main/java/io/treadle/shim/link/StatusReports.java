// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.CommitPipeline;
import io.treadle.shim.Json;
import io.treadle.shim.Printable;
import io.treadle.shim.Rate;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.metrics.Troubles;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import org.apache.hadoop.thirdparty.com.google.common.collect.Streams;

/**
 * Passes on what an engine reports of itself with its answers: a few short texts and numbers, whatever it sends, to
 * whom they concern, the metrics and the log. Users name what some are about.
 */
final class StatusReports {
  private static final long EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final int TEXTS = 20;
  private static final int APPLICATIONS = 16;
  /** The longest JSON object about several engines, characters: a longer one is left out. */
  private static final int ENGINES = 8192;
  /** The types of applications whose keys an engine may get: those with plug-ins that speak with the plan listener. */
  private static final List<String> KEYED = Collections.unmodifiableList(Arrays.asList("TEZ", "SPARK"));

  private final Mirror mirror;
  private final CommitPipeline handler;
  private final ShimMetrics metrics;
  private final StateLog states;
  /** An engine may send another status with each answer; reading one takes a while. */
  private final Rate reads;
  /** The latest status, if it has not been read. */
  private String unread = "";

  /** With a monotonic clock such as {@code System::nanoTime}. */
  StatusReports(LongSupplier nanoClock, Mirror mirror, CommitPipeline handler, ShimMetrics metrics, StateLog states) {
    this.reads = new Rate(nanoClock, 1, EVERY_NANOS);
    this.mirror = mirror;
    this.handler = handler;
    this.metrics = metrics;
    this.states = states;
  }

  /**
   * Takes the status of an answer; an empty one means no change. If two come within 100 ms, the later is read with a
   * later answer.
   *
   * @throws IOException if it is not a JSON object, or a hostile one
   */
  void take(ProposalFrame answer) throws IOException {
    if (!answer.status.isEmpty()) {
      unread = answer.status;
    }
    if (!unread.isEmpty() && reads.take()) {
      String status = unread;
      unread = "";
      read(Json.object(status, "the status of an answer"));
    }
  }

  /**
   * Reads {@code {"policy": text, "overrides_guarantees": true or false, "overrides_order": true or false,
   * "error": text or null, "learned": text, "waits_for": text, "keys_for": [text, ...],
   * "diagnostics": [[application, text], ...], "engines": {...}, "warnings": [text, ...]}}.
   */
  private void read(JsonNode status) {
    String policy = text(status, "policy");
    String error = text(status, "error");
    List<String> warnings = texts(status.path("warnings"));
    String engines = status.path("engines").isObject() ? status.path("engines").toString() : "";
    metrics.show(ShimMetrics.Text.LEARNED, text(status, "learned"));
    mirror.keysFor(keyed(status.path("keys_for")));
    handler.status(status.path("overrides_guarantees").asBoolean(false),
        status.path("overrides_order").asBoolean(false), diagnostics(status.path("diagnostics")), mirror);
    metrics.show(ShimMetrics.Text.ENGINES, engines.length() > ENGINES ? "" : engines);
    // after that, so that a reader who sees the policy's name does not see Schedules of an earlier policy
    metrics.show(ShimMetrics.Text.POLICY, policy);
    states.policy(policy);
    metrics.show(ShimMetrics.Text.WAITS_FOR, text(status, "waits_for"));
    metrics.troubles.note(Troubles.Kind.ENGINE, error);
    states.text(error);
    metrics.show(ShimMetrics.Text.WARNINGS, String.join("; ", warnings));
    warnings.forEach(states::text);
  }

  private static String text(JsonNode status, String name) {
    return Printable.brief(status.path(name).asText(""));
  }

  /** The first 20 texts. */
  static List<String> texts(JsonNode texts) {
    return Streams.stream(texts).limit(TEXTS).map(text -> Printable.brief(text.asText())).collect(Collectors.toList());
  }

  /** Of TEZ and SPARK those types of the applications whose keys the engine wants. */
  static Set<String> keyed(JsonNode types) {
    return texts(types).stream().map(type -> type.toUpperCase(Locale.ROOT)).filter(KEYED::contains)
        .collect(Collectors.toSet());
  }

  /** The first 16 of {@code [[application, text], ...]}; whatever is not of this form is left out. */
  static Map<Integer, String> diagnostics(JsonNode rows) {
    Map<Integer, String> found = new TreeMap<>();
    for (JsonNode row : rows) {
      boolean isPair = row.isArray() && row.size() == 2 && row.get(0).isInt();
      if (found.size() < APPLICATIONS && isPair && row.get(0).asInt() >= 0) {
        found.put(row.get(0).asInt(), Printable.brief(row.get(1).asText()));
      }
    }
    return found;
  }

  /** The conversation is over: the next engine holds back, warns and is several only if it says so itself. */
  void hungUp() {
    unread = "";
    EnumSet.of(ShimMetrics.Text.WAITS_FOR, ShimMetrics.Text.WARNINGS, ShimMetrics.Text.ENGINES)
        .forEach(text -> metrics.show(text, null));
  }
}

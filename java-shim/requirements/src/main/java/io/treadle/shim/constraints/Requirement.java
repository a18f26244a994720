// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.thirdparty.com.google.common.cache.Cache;
import org.apache.hadoop.thirdparty.com.google.common.cache.CacheBuilder;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/**
 * What an application requires of the nodes of its containers, except its application master's: conditions joined by
 * {@code ;}. It says so in tags, {@code treadle:require=...}, or, in the environment of its master, as
 * {@code TREADLE_REQUIRE}. Immutable.
 */
final class Requirement {
  /** A longer variable is not given to the engine either: it cannot be met by any node. */
  static final int MAX_VARIABLE_CHARS = 900;

  private static final int MAX_CHARS = 1000;
  private static final int SHOWN_CHARS = 120;
  private static final Pattern PRINTABLE = Pattern.compile("[ -~]*");
  private static final String TAG = "treadle:require=";
  private static final String VARIABLE = "TREADLE_REQUIRE";

  /** Those made lately: all asks of an application, and all applications like it, share one. */
  private static final Cache<List<String>, Requirement> MADE = CacheBuilder.newBuilder().maximumSize(1024).build();

  private final List<Condition> conditions = new ArrayList<>(0);
  /** Why it cannot be met by any node and how to put it right, or null. */
  String error;

  /** What an application requires; null, an application that has gone, requires nothing. */
  static Requirement of(RMApp app) {
    Set<String> tags = app == null ? null : app.getApplicationTags();
    List<String> texts = (tags == null ? Collections.<String>emptySet() : tags).stream()
        .filter(tag -> tag.startsWith(TAG)).map(tag -> tag.substring(TAG.length())).collect(Collectors.toList());
    Map<String, String> environment = app == null ? null : app.getApplicationSchedulingEnvs();
    String variable = environment == null ? null : environment.get(VARIABLE);
    if (variable != null) {
      texts.add(variable.length() <= MAX_VARIABLE_CHARS ? variable : "");
    }
    return of(texts);
  }

  /** What all of some texts require; where one of them cannot be read, no node will do. */
  static Requirement of(List<String> texts) {
    return MADE.asMap().computeIfAbsent(texts, Requirement::new);
  }

  /** How many are shared; for tests. */
  static long remembered() {
    return MADE.size();
  }

  private Requirement(List<String> texts) {
    for (String text : texts) {
      boolean readable = text.length() <= MAX_CHARS && PRINTABLE.matcher(text).matches();
      for (String part : readable ? text.split(";", -1) : new String[] {text}) {
        Condition condition = readable ? Condition.read(part) : null;
        conditions.add(condition);
        if (condition == null) {
          // users choose the text, and logs and terminals show it
          error = "no containers but the application master's: treadle:require has '"
              + part.substring(0, Math.min(SHOWN_CHARS, part.length())).replaceAll("[^ -~]", " ")
              + "', which is not name op value, as in zone=a or kernel>=4.18, with = != >= > <= or < (at most "
              + MAX_CHARS + " characters of ASCII, one dotted number after < or >)";
        }
      }
    }
  }

  /** Whether any node will do. */
  boolean isNone() {
    return conditions.isEmpty();
  }

  /**
   * Whether a node will do.
   *
   * @throws java.util.ConcurrentModificationException if the node's attributes changed while they were read
   */
  boolean admits(SchedulerNode node) {
    return error == null && conditions.stream().allMatch(condition -> condition.holds(node));
  }
}

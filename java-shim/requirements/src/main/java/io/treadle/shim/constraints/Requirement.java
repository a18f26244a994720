// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.thirdparty.com.google.common.cache.Cache;
import org.apache.hadoop.thirdparty.com.google.common.cache.CacheBuilder;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/**
 * What an application requires of the nodes of its containers, except its application master's. It says so in tags,
 * {@code treadle:require=...}, or, in the environment of its master, as {@code TREADLE_REQUIRE}. Immutable.
 */
final class Requirement {
  /** Any node will do. */
  static final Requirement NONE = new Requirement(Collections.emptyList(), null);
  /** A longer variable is not given to the engine either: it cannot be met by any node. */
  static final int MAX_VARIABLE_CHARS = 900;

  private static final String TAG = "treadle:require=";
  private static final String VARIABLE = "TREADLE_REQUIRE";
  /** A text has at most 1,000 characters. */
  private static final int READ_MAX = 1024;
  /** Texts that were read lately: all asks of an application, and all applications like it, share one. */
  private static final Cache<String, Expression> READ = CacheBuilder.newBuilder().maximumSize(READ_MAX).build();

  private final List<Expression> expressions;
  private final String error;

  private Requirement(List<Expression> expressions, String error) {
    this.expressions = expressions;
    this.error = error;
  }

  /** What an application requires; null, an application that has gone, requires nothing. */
  static Requirement of(RMApp app) {
    if (app == null) {
      return NONE;
    }
    List<String> texts = new ArrayList<>(0);
    Set<String> tags = app.getApplicationTags();
    for (String tag : tags == null ? Collections.<String>emptySet() : tags) {
      if (tag.startsWith(TAG)) {
        texts.add(tag.substring(TAG.length()));
      }
    }
    Map<String, String> environment = app.getApplicationSchedulingEnvs();
    String variable = environment == null ? null : environment.get(VARIABLE);
    if (variable != null) {
      texts.add(variable.length() <= MAX_VARIABLE_CHARS ? variable : "");
    }
    return of(texts);
  }

  /** What all of some texts require; where one of them cannot be read, no node will do. */
  static Requirement of(List<String> texts) {
    if (texts.isEmpty()) {
      return NONE;
    }
    List<Expression> read = new ArrayList<>(texts.size());
    for (String text : texts) {
      try {
        read.add(read(text));
      } catch (ExpressionException e) {
        return new Requirement(Collections.emptyList(), "no containers but the application master's: treadle:require "
            + e.getMessage());
      }
    }
    return new Requirement(read, null);
  }

  private static Expression read(String text) throws ExpressionException {
    Expression known = READ.getIfPresent(text);
    if (known == null) {
      known = Expression.parse(text);
      READ.put(text, known);
    }
    return known;
  }

  /** How many texts are remembered; for tests. */
  static long remembered() {
    return READ.size();
  }

  /** Whether any node will do. */
  boolean isNone() {
    return error == null && expressions.isEmpty();
  }

  /** Why it cannot be met by any node and how to put it right, or null. */
  String error() {
    return error;
  }

  /**
   * Whether a node will do.
   *
   * @throws java.util.ConcurrentModificationException if the node's attributes changed each time that they were read
   */
  boolean admits(SchedulerNode node) {
    if (isNone()) {
      return true;
    }
    NodeFacts facts = new NodeFacts(node);
    return error == null && expressions.stream().allMatch(expression -> expression.admits(facts));
  }
}

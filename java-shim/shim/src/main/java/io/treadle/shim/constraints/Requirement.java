// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import io.treadle.shim.Log;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/** What an application requires of the nodes of its containers, except its application master's. Immutable. */
public final class Requirement {
  /** Any node will do. */
  public static final Requirement NONE = new Requirement(Collections.emptyList(), null);

  private static final Log LOG = new Log(Requirement.class);

  private final List<Expression> expressions;
  private final String error;

  private Requirement(List<Expression> expressions, String error) {
    this.expressions = expressions;
    this.error = error;
  }

  /** What all of some texts require; where one of them cannot be read, no node will do. */
  static Requirement of(List<String> texts) {
    if (texts.isEmpty()) {
      return NONE;
    }
    List<Expression> read = new ArrayList<>(texts.size());
    for (String text : texts) {
      try {
        read.add(ExpressionCache.parse(text));
      } catch (ExpressionException e) {
        return new Requirement(Collections.emptyList(), "no containers but the application master's: treadle:require "
            + e.getMessage());
      }
    }
    return new Requirement(read, null);
  }

  /** Whether any node will do. */
  public boolean isNone() {
    return error == null && expressions.isEmpty();
  }

  /** Why it cannot be met by any node and how to put it right, or null. */
  public String error() {
    return error;
  }

  /** The canonical form of what is required; empty if it cannot be read. */
  public String text() {
    StringBuilder text = new StringBuilder();
    for (Expression expression : expressions) {
      text.append(text.length() == 0 ? "" : ";").append(expression.text());
    }
    return text.toString();
  }

  /** Whether a node will do. What cannot be judged now will not, and is asked again. Throws nothing. */
  public boolean admits(SchedulerNode node) {
    if (error != null) {
      return false;
    }
    if (expressions.isEmpty()) {
      return true;
    }
    try {
      return admits(new SchedulerNodeFacts(node));
    } catch (RuntimeException e) {
      LOG.failure("comparing node " + node.getNodeID() + ", which is left out for now, with '" + text() + "'", e);
      return false;
    }
  }

  private boolean admits(NodeFacts facts) {
    for (Expression expression : expressions) {
      if (!expression.admits(facts)) {
        return false;
      }
    }
    return true;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;

/** What must hold of one value of a node. */
final class Predicate {
  private final String name;
  private final String op;
  private final TreeSet<String> values;

  /** Name and values are in lower case; a comparison has one value, a dotted number. */
  Predicate(String name, String op, Collection<String> values) {
    this.name = name;
    this.op = op;
    this.values = new TreeSet<>(values);
  }

  /** Whether {@code op} compares dotted numbers. */
  static boolean compares(String op) {
    return op.charAt(0) == '<' || op.charAt(0) == '>';
  }

  /** The canonical form. */
  String text() {
    return name + op + String.join("|", values);
  }

  /** By which predicates are in order, each once: name, operator, values. */
  String key() {
    return name + '\0' + op + '\0' + String.join("\0", values);
  }

  /** Whether it holds of a node; where there is no such value only {@code !=} does. */
  boolean holds(NodeFacts node) {
    List<String> found = node.values(name);
    if ("!=".equals(op)) {
      return !anyEquals(found);
    }
    return compares(op) ? anyCompares(found) : anyEquals(found);
  }

  private boolean anyEquals(List<String> found) {
    for (String value : found) {
      String lower = value.toLowerCase(Locale.ROOT);
      for (String wanted : values) {
        if (Versions.same(lower, wanted)) {
          return true;
        }
      }
    }
    return false;
  }

  private boolean anyCompares(List<String> found) {
    for (String value : found) {
      if (Versions.isDotted(value)) {
        int order = Versions.compare(value, values.first());
        if (op.startsWith(">") ? order > 0 : order < 0) {
          return true;
        }
        if (order == 0 && op.length() == 2) {
          return true;
        }
      }
    }
    return false;
  }
}

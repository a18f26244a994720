// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.util.ComparableVersion;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeKey;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;

/**
 * What must hold of one value of a node: {@code name op value[|value]}, case ignored. {@code treadle.constraints} is
 * the same in Python, and says at which character a text goes wrong; {@code tests/golden/expressions.json} holds both
 * to one meaning.
 */
final class Condition {
  private static final Pattern DOTTED = Pattern.compile("[0-9]++(\\.[0-9]++)*+");
  private static final String WORD = "[a-z0-9_][a-z0-9_.-]*+";
  private static final String VALUE = " *+[^!<>=|;& ][^!<>=|;&]*+";
  /** Operators of two characters first: the longest that stands there is meant. */
  private static final Pattern FORM = Pattern.compile(
      " *(" + WORD + "(?:/" + WORD + ")?) *(!=|>=|<=|=|>|<)(" + VALUE + "(?:\\|" + VALUE + ")*+)");

  /** How requirements name the partition of nodes without a label. */
  private static final String DEFAULT_PARTITION = "default";

  private final String name;
  private final String op;
  private final List<String> values;

  private Condition(Matcher form) {
    name = form.group(1);
    op = form.group(2);
    values = Arrays.stream(form.group(3).split("\\|")).map(String::trim).collect(Collectors.toList());
  }

  /** Reads printable ASCII; null if it is not of the form. */
  static Condition read(String text) {
    Matcher form = FORM.matcher(text.toLowerCase(Locale.ROOT));
    Condition read = form.matches() ? new Condition(form) : null;
    return read == null || read.compares() && (read.values.size() > 1 || !isDotted(read.values.get(0))) ? null : read;
  }

  /** Whether it compares dotted numbers. */
  private boolean compares() {
    return op.charAt(0) == '<' || op.charAt(0) == '>';
  }

  /** Whether it holds of a node; where there is no such value only {@code !=} does. */
  boolean holds(SchedulerNode node) {
    return values(node, name).stream().anyMatch(this::admits) != "!=".equals(op);
  }

  private boolean admits(String value) {
    if (!compares()) {
      String lower = value.toLowerCase(Locale.ROOT);
      return values.stream().anyMatch(wanted -> wanted.equals(lower)
          || isDotted(lower) && isDotted(wanted) && order(lower, wanted) == 0);
    }
    int order = isDotted(value) ? order(value, values.get(0)) : 0;
    boolean strictly = op.charAt(0) == '>' ? order > 0 : order < 0;
    return isDotted(value) && (strictly || order == 0 && op.length() == 2);
  }

  /** Whether a text is a dotted number, as in {@code 4.18}; parts that are missing are 0. */
  private static boolean isDotted(String text) {
    return DOTTED.matcher(text).matches();
  }

  private static int order(String left, String right) {
    return new ComparableVersion(left).compareTo(new ComparableVersion(right));
  }

  /**
   * Returns a node's values of a lower-case name: {@code rack}, {@code host}, {@code partition}, the total of a
   * resource type, else an attribute; a name without a prefix stands for attributes with any prefix.
   *
   * @throws java.util.ConcurrentModificationException if the attributes changed meanwhile: the scheduler's set is a
   *     view of a map that other threads change
   */
  private static List<String> values(SchedulerNode node, String name) {
    switch (name) {
      case "rack":
        return Collections.singletonList(node.getRackName());
      case "host":
        // the scheduler's name of a node may end in its port
        return Collections.singletonList(node.getNodeName().replaceFirst(":[0-9]+$", ""));
      case "partition":
        String partition = node.getPartition();
        return Collections.singletonList(partition == null || partition.isEmpty() ? DEFAULT_PARTITION : partition);
      default:
        List<String> totals = totals(node, name);
        return totals.isEmpty() ? attributes(node, name) : totals;
    }
  }

  private static List<String> totals(SchedulerNode node, String name) {
    List<String> found = new ArrayList<>(1);
    for (ResourceInformation type : node.getTotalResource().getResources()) {
      if (type.getName().toLowerCase(Locale.ROOT).equals(name)) {
        found.add(Long.toString(type.getValue()));
      }
    }
    return found;
  }

  private static List<String> attributes(SchedulerNode node, String name) {
    Set<NodeAttribute> attributes = node.getNodeAttributes();
    boolean full = name.indexOf('/') >= 0;
    List<String> found = new ArrayList<>(1);
    for (NodeAttribute attribute : attributes == null ? Collections.<NodeAttribute>emptySet() : attributes) {
      NodeAttributeKey key = attribute.getAttributeKey();
      String whole = key.getAttributePrefix() + "/" + key.getAttributeName();
      String lower = (full ? whole : key.getAttributeName()).toLowerCase(Locale.ROOT);
      if (lower.equals(name)) {
        found.add(String.valueOf(attribute.getAttributeValue()));
      }
    }
    return found;
  }
}

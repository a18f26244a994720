// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.AbstractConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.And;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.Or;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.api.resource.PlacementConstraintTransformations.SingleConstraintTransformer;

/**
 * The canonical form of a placement constraint (docs/wire-format.md): one text for equal ones. What the scheduler
 * reduces to single constraints before it judges is reduced here, too.
 */
final class ConstraintText {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
  private static final int MAX_PARTS = 64;
  private static final int MAX_DEPTH = 16;

  private int parts;

  private ConstraintText() {
  }

  /** The text; null if the constraint is longer than a text may be, or of a kind that is never satisfied. */
  static String of(PlacementConstraint constraint) {
    if (constraint == null || constraint.getConstraintExpr() == null) {
      return JSON.objectNode().set("and", JSON.arrayNode()).toString();
    }
    ObjectNode node = new ConstraintText().node(constraint.getConstraintExpr(), 0);
    String text = node == null ? null : node.toString();
    return text == null || text.length() > Names.MAX_CHARS ? null : text;
  }

  private ObjectNode node(AbstractConstraint constraint, int depth) {
    if (++parts > MAX_PARTS || depth > MAX_DEPTH) {
      return null;
    }
    if (constraint instanceof And) {
      return composite("and", ((And) constraint).getChildren(), depth);
    }
    if (constraint instanceof Or) {
      return composite("or", ((Or) constraint).getChildren(), depth);
    }
    AbstractConstraint single = constraint instanceof SingleConstraint ? constraint
        : new SingleConstraintTransformer(constraint.build()).transform().getConstraintExpr();
    return single instanceof SingleConstraint ? single((SingleConstraint) single) : null;
  }

  private ObjectNode composite(String name, Iterable<AbstractConstraint> children, int depth) {
    ArrayNode nodes = JSON.arrayNode();
    for (AbstractConstraint child : children) {
      ObjectNode node = node(child, depth + 1);
      if (node == null) {
        return null;
      }
      nodes.add(node);
    }
    ObjectNode made = JSON.objectNode();
    made.set(name, nodes);
    return made;
  }

  private ObjectNode single(SingleConstraint single) {
    // a set in an order of its own
    TreeMap<String, ObjectNode> targets = new TreeMap<>();
    for (TargetExpression target : single.getTargetExpressions()) {
      ObjectNode made = JSON.objectNode();
      made.put("type", target.getTargetType().name());
      made.put("key", target.getTargetKey());
      ArrayNode values = JSON.arrayNode();
      if (target.getTargetValues() != null) {
        new TreeSet<>(target.getTargetValues()).forEach(values::add);
      }
      parts += values.size();
      made.set("values", values);
      targets.put(made.toString(), made);
    }
    ObjectNode made = JSON.objectNode();
    made.put("scope", single.getScope());
    made.put("min", single.getMinCardinality());
    made.put("max", single.getMaxCardinality());
    made.put("op", String.valueOf(single.getNodeAttributeOpCode()));
    made.set("targets", JSON.arrayNode().addAll(targets.values()));
    return parts > MAX_PARTS ? null : made;
  }
}

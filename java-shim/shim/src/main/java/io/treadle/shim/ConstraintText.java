// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.commons.lang3.reflect.FieldUtils;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.records.impl.pb.SchedulingRequestPBImpl;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.AbstractConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.And;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.CompositeConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.Or;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.api.resource.PlacementConstraintTransformations.SingleConstraintTransformer;
import org.apache.hadoop.yarn.proto.YarnProtos.SchedulingRequestProto;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;

/**
 * The constraint of a scheduling request as the RM evaluates it: the conjunction of its own and those that its
 * application and the cluster have for its allocation tags, and the tags. The text is its canonical form
 * (docs/wire-format.md): one text for equal ones. Constraints that the scheduler reduces to single ones are reduced
 * here, too.
 */
public final class ConstraintText {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
  private static final int MAX_PARTS = 64;
  private static final int MAX_DEPTH = 16;
  private static final int MAX_CHARS = 1000;
  /** More allocation tags of a request are left out, and its constraint is then opaque. */
  static final int MAX_TAGS = 32;
  /** A longer tag is left out, and the constraint is then opaque. */
  static final int MAX_TAG_CHARS = 128;
  /** A larger request is not read: its constraint is opaque. Texts and tags within the limits take less, in UTF-8. */
  static final int MAX_BYTES = 1 << 14;
  /** The constraint of a request that was not read. */
  public static final ConstraintText OPAQUE = new ConstraintText(0);

  /** Null if the constraint is longer than a text may be, or of a kind that is never satisfied. */
  public final String text;
  /** The allocation tags, in order. */
  public final TreeSet<String> tags = new TreeSet<>();
  /** The size of the request that was looked at, which is how much the look cost. */
  public final int bytes;
  private int parts;

  private ConstraintText(RMContext context, ApplicationId application, SchedulingRequest asked, int bytes) {
    this.bytes = bytes;
    if (asked.getAllocationTags() != null) {
      tags.addAll(asked.getAllocationTags());
    }
    boolean opaque = tags.size() > MAX_TAGS | tags.removeIf(tag -> tag.length() > MAX_TAG_CHARS);
    while (tags.size() > MAX_TAGS) {
      tags.pollLast();
    }
    // constraints are for exactly one tag, and the manager logs each question about others
    Set<String> source = tags.size() == 1 ? tags : Collections.emptySet();
    PlacementConstraintManager manager = context.getPlacementConstraintManager();
    PlacementConstraint own = asked.getPlacementConstraint();
    // the conjunction compares its parts: a large one of the application is not read for each of its requests
    if (opaque || manager != null && !source.isEmpty()
        && canonical(manager.getConstraint(application, source)) == null) {
      text = null;
    } else {
      text = canonical(manager == null ? own : manager.getMultilevelConstraint(application, source, own));
    }
  }

  private ConstraintText(int bytes) {
    this.bytes = bytes;
    text = null;
  }

  /**
   * Reads what an application asks for. The scheduler's own request is filled when it is first read, and the
   * scheduler's threads may read it at this moment; only what it is made from does not change.
   */
  public static ConstraintText of(RMContext context, ApplicationId application, SchedulingRequest asked) {
    int bytes = 0;
    try {
      SchedulingRequestProto proto = (SchedulingRequestProto) FieldUtils.readField(asked, "proto", true);
      bytes = proto.getSerializedSize();
      return bytes == 0 || bytes > MAX_BYTES ? new ConstraintText(bytes)
          : new ConstraintText(context, application, new SchedulingRequestPBImpl(proto), bytes);
    } catch (IllegalAccessException | RuntimeException | StackOverflowError e) {
      return new ConstraintText(bytes);
    }
  }

  /** The canonical form of a constraint; null if there is none. */
  public static String canonical(PlacementConstraint constraint) {
    if (constraint == null || constraint.getConstraintExpr() == null) {
      return JSON.objectNode().set("and", JSON.arrayNode()).toString();
    }
    ObjectNode node = new ConstraintText(0).node(constraint.getConstraintExpr(), 0);
    String made = node == null ? null : node.toString();
    return made == null || made.length() > MAX_CHARS ? null : made;
  }

  private ObjectNode node(AbstractConstraint constraint, int depth) {
    if (++parts > MAX_PARTS || depth > MAX_DEPTH) {
      return null;
    }
    if (constraint instanceof And || constraint instanceof Or) {
      ArrayNode nodes = JSON.arrayNode();
      for (Object child : ((CompositeConstraint<?>) constraint).getChildren()) {
        ObjectNode node = node((AbstractConstraint) child, depth + 1);
        if (node == null) {
          return null;
        }
        nodes.add(node);
      }
      return JSON.objectNode().set(constraint instanceof And ? "and" : "or", nodes);
    }
    AbstractConstraint single = constraint instanceof SingleConstraint ? constraint
        : new SingleConstraintTransformer(constraint.build()).transform().getConstraintExpr();
    return single instanceof SingleConstraint ? single((SingleConstraint) single) : null;
  }

  private ObjectNode single(SingleConstraint single) {
    // a set in an order of its own
    TreeMap<String, ObjectNode> targets = new TreeMap<>();
    for (TargetExpression target : single.getTargetExpressions()) {
      ObjectNode made = JSON.objectNode();
      made.put("type", target.getTargetType().name());
      made.put("key", target.getTargetKey());
      ArrayNode values = JSON.arrayNode();
      parts += target.getTargetValues() == null ? 0 : target.getTargetValues().size();
      if (parts > MAX_PARTS || targets.size() > MAX_PARTS) {
        return null;
      }
      if (target.getTargetValues() != null) {
        new TreeSet<>(target.getTargetValues()).forEach(values::add);
      }
      made.set("values", values);
      targets.put(made.toString(), made);
    }
    ObjectNode made = JSON.objectNode();
    made.put("scope", single.getScope());
    made.put("min", single.getMinCardinality());
    made.put("max", single.getMaxCardinality());
    made.put("op", String.valueOf(single.getNodeAttributeOpCode()));
    made.set("targets", JSON.arrayNode().addAll(targets.values()));
    return made;
  }
}

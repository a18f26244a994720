// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.TreeMap;
import java.util.TreeSet;
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
  private static final Field PROTO = proto();
  /** Nothing is known of a request that the RM cannot judge either: the RM reports that to the application. */
  public static final ConstraintText OPAQUE = new ConstraintText();

  /** Null if the constraint is longer than a text may be, or of a kind that is never satisfied. */
  public final String text;
  /** The allocation tags, in order. */
  public final TreeSet<String> tags = new TreeSet<>();
  private int parts;

  private ConstraintText(RMContext context, ApplicationId application, SchedulingRequest asked) {
    if (asked.getAllocationTags() != null) {
      tags.addAll(asked.getAllocationTags());
    }
    boolean opaque = tags.size() > MAX_TAGS | tags.removeIf(tag -> tag.length() > MAX_TAG_CHARS);
    PlacementConstraintManager manager = context.getPlacementConstraintManager();
    PlacementConstraint own = asked.getPlacementConstraint();
    PlacementConstraint all = manager == null ? own : manager.getMultilevelConstraint(application, tags, own);
    text = opaque ? null : canonical(all);
    while (tags.size() > MAX_TAGS) {
      tags.pollLast();
    }
  }

  private ConstraintText() {
    text = null;
  }

  /** Reads what an application asks for. */
  public static ConstraintText of(RMContext context, ApplicationId application, SchedulingRequest asked) {
    try {
      SchedulingRequest copy = copy(asked);
      return copy == null ? OPAQUE : new ConstraintText(context, application, copy);
    } catch (RuntimeException | StackOverflowError e) {
      return OPAQUE;
    }
  }

  private static Field proto() {
    try {
      Field field = SchedulingRequestPBImpl.class.getDeclaredField("proto");
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  /**
   * A copy of a request. The scheduler fills its own when it is first read, possibly in another thread at this moment;
   * only its source does not change.
   *
   * @return null if there is no source
   */
  private static SchedulingRequest copy(SchedulingRequest asked) {
    try {
      Object proto = PROTO == null || !(asked instanceof SchedulingRequestPBImpl) ? null : PROTO.get(asked);
      return proto == null || proto == SchedulingRequestProto.getDefaultInstance() ? null
          : new SchedulingRequestPBImpl((SchedulingRequestProto) proto);
    } catch (IllegalAccessException e) {
      return null;
    }
  }

  /** The canonical form of a constraint; null if there is none. */
  public static String canonical(PlacementConstraint constraint) {
    if (constraint == null || constraint.getConstraintExpr() == null) {
      return JSON.objectNode().set("and", JSON.arrayNode()).toString();
    }
    ObjectNode node = new ConstraintText().node(constraint.getConstraintExpr(), 0);
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

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.records.impl.pb.SchedulingRequestPBImpl;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.proto.YarnProtos.SchedulingRequestProto;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;

/**
 * Writes what the RM judges a scheduling request by: the conjunction of its own constraint and those that its
 * application and the cluster have for its allocation tags, and the tags. An application gives them when it registers,
 * so they are read once for each request; a constraint of the cluster that changes later is seen with the next
 * snapshot.
 */
final class ConstraintSection {
  /** More allocation tags of a request are left out, and its constraint is then opaque. */
  static final int MAX_TAGS = 32;

  /** A longer tag is left out, and the constraint is then opaque. */
  static final int MAX_TAG_CHARS = 128;

  private static final Field PROTO = proto();

  private ConstraintSection() {
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
   * A request to read. The scheduler's own is filled when it is first read, and the scheduler's threads may read it at
   * this moment; only what it is made from does not change.
   *
   * @return null if there is nothing that it was made from
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

  /**
   * Writes the constraint of a request if it is another than before.
   *
   * @return false if the request has to wait for that
   */
  static boolean review(Draft draft, ApplicationSection.Row row, RequestSection.Row request, SchedulingRequest asked) {
    if (asked == null || asked == request.constraintOf) {
      return true;
    }
    if (row.waits(draft)) {
      return false;
    }
    request.constraintOf = asked;
    String text = null;
    Set<String> tags = Collections.emptySet();
    try {
      SchedulingRequest copy = copy(asked);
      tags = copy == null || copy.getAllocationTags() == null ? tags : new TreeSet<>(copy.getAllocationTags());
      boolean bounded = tags.size() <= MAX_TAGS && tags.stream().allMatch(tag -> tag.length() <= MAX_TAG_CHARS);
      text = copy == null || !bounded ? null : ConstraintText.of(constraint(draft, row, copy, tags));
    } catch (RuntimeException | StackOverflowError e) {
      // a request that the RM cannot judge either: the RM reports that to the application
      text = null;
    }
    row.budget.spend(UserBudget.ROW + draft.cost(text));
    draft.section(Section.CONSTRAINTS).i32(row.index).i32(request.index).name(draft.name(text)).flag(text == null)
        .end();
    int left = MAX_TAGS;
    for (String tag : tags) {
      if (tag.length() <= MAX_TAG_CHARS && left-- > 0) {
        row.budget.spend(UserBudget.ROW + draft.cost(tag));
        draft.section(Section.ALLOCATION_TAGS).i32(row.index).i32(request.index).name(draft.name(tag)).end();
      }
    }
    return true;
  }

  private static PlacementConstraint constraint(Draft draft, ApplicationSection.Row row, SchedulingRequest asked,
      Set<String> tags) {
    PlacementConstraintManager manager = draft.context.getPlacementConstraintManager();
    PlacementConstraint own = asked.getPlacementConstraint();
    return manager == null ? own
        : manager.getMultilevelConstraint(row.app.getApplicationId(), tags, own);
  }
}

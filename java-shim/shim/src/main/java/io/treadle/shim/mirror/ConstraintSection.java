package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;

/**
 * Writes what the RM judges a scheduling request by: the conjunction of its own constraint and those that its
 * application and the cluster have for its allocation tags, and the tags. An application says them when it registers, so
 * they are read once for each request; a constraint of the cluster that changes later is seen with the next snapshot.
 */
final class ConstraintSection {
  /** More allocation tags of a request are left out, and its constraint is then opaque. */
  static final int MAX_TAGS = 32;

  private ConstraintSection() {
  }

  static void review(Draft draft, ApplicationRow row, KeyRow request, SchedulingRequest asked) {
    if (asked == null || asked == request.constraintOf) {
      return;
    }
    request.constraintOf = asked;
    String text = null;
    Set<String> tags = Collections.emptySet();
    try {
      tags = asked.getAllocationTags() == null ? tags : new TreeSet<>(asked.getAllocationTags());
      text = tags.size() > MAX_TAGS ? null : ConstraintText.of(constraint(draft, row, asked, tags));
    } catch (RuntimeException | StackOverflowError e) {
      // a request that the RM cannot judge either: it says so to the application
      text = null;
    }
    draft.section(Section.CONSTRAINTS).i32(row.index).i32(request.index).name(draft.name(text)).flag(text == null)
        .end();
    int left = MAX_TAGS;
    for (String tag : tags) {
      if (left-- > 0) {
        draft.section(Section.ALLOCATION_TAGS).i32(row.index).i32(request.index).name(draft.name(tag)).end();
      }
    }
  }

  private static PlacementConstraint constraint(Draft draft, ApplicationRow row, SchedulingRequest asked,
      Set<String> tags) {
    PlacementConstraintManager manager = draft.context().getPlacementConstraintManager();
    PlacementConstraint own = asked.getPlacementConstraint();
    return manager == null ? own
        : manager.getMultilevelConstraint(row.app.getApplicationId(), tags, own);
  }
}

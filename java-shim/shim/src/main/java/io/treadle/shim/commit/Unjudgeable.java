// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.AttemptDiagnostics;
import io.treadle.shim.Log;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.RejectedSchedulingRequest;
import org.apache.hadoop.yarn.api.records.RejectionReason;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.CompositeConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;

/**
 * Placement constraints that the RM takes and cannot judge. One that compares an attribute with nothing makes stock
 * code throw on the scheduler's own thread, which ends the RM: such a request is kept from the scheduler, its AM gets
 * it back as rejected, and the application's diagnostics say why.
 */
public final class Unjudgeable {
  private static final Log LOG = new Log(Unjudgeable.class);
  private static final int LINES = 64;
  private static final String TEXT = "a placement constraint compares a node attribute with nothing, which the"
      + " ResourceManager cannot judge: the request is rejected; name a value";

  private int logged;

  /**
   * Returns the requests that the scheduler can judge, the same list if all are. The thread of the application master,
   * before the scheduler has seen them.
   */
  public List<SchedulingRequest> without(RMContext context, ApplicationAttemptId id, List<SchedulingRequest> asked) {
    if (asked == null || asked.isEmpty()) {
      return asked;
    }
    RMApp app = context.getRMApps().get(id.getApplicationId());
    List<SchedulingRequest> kept = new ArrayList<>(asked.size());
    for (SchedulingRequest request : asked) {
      if (comparesNothing(context.getPlacementConstraintManager(), id, request)) {
        AttemptDiagnostics.report(app, id, TEXT);
        log(id);
      } else {
        kept.add(request);
      }
    }
    return kept.size() == asked.size() ? asked : kept;
  }

  /** An answer to an AM that also rejects those of its requests that {@link #without} left out. */
  public static Allocation rejecting(Allocation answer, List<SchedulingRequest> asked, List<SchedulingRequest> kept) {
    if (kept == asked || answer.getRejectedRequest() == null) {
      return answer;
    }
    List<RejectedSchedulingRequest> rejected = new ArrayList<>(answer.getRejectedRequest());
    int next = 0;
    for (SchedulingRequest request : asked) {
      if (next < kept.size() && kept.get(next) == request) {
        next++;
      } else {
        rejected.add(RejectedSchedulingRequest.newInstance(RejectionReason.COULD_NOT_PLACE_ON_NODE, request));
      }
    }
    return new Allocation(answer.getContainers(), answer.getResourceLimit(), answer.getStrictContainerPreemptions(),
        answer.getContainerPreemptions(), answer.getResourcePreemptions(), answer.getNMTokens(),
        answer.getIncreasedContainers(), answer.getDecreasedContainers(), answer.getPromotedContainers(),
        answer.getDemotedContainers(), answer.getPreviousAttemptContainers(), rejected);
  }

  private synchronized void log(ApplicationAttemptId id) {
    if (logged < LINES) {
      logged++;
      LOG.warn("{}: {}", id, TEXT);
    }
  }

  private static boolean comparesNothing(PlacementConstraintManager manager, ApplicationAttemptId id,
      SchedulingRequest request) {
    PlacementConstraint own = request.getPlacementConstraint();
    PlacementConstraint all = manager == null ? own
        : manager.getMultilevelConstraint(id.getApplicationId(), request.getAllocationTags(), own);
    return all != null && comparesNothing(all.getConstraintExpr());
  }

  private static boolean comparesNothing(Object constraint) {
    if (constraint instanceof CompositeConstraint) {
      return ((CompositeConstraint<?>) constraint).getChildren().stream().anyMatch(Unjudgeable::comparesNothing);
    }
    Collection<TargetExpression> targets = Collections.emptySet();
    if (constraint instanceof SingleConstraint) {
      targets = ((SingleConstraint) constraint).getTargetExpressions();
    } else if (constraint instanceof TargetConstraint) {
      targets = ((TargetConstraint) constraint).getTargetExpressions();
    }
    return targets.stream().anyMatch(target -> target.getTargetType() == TargetExpression.TargetType.NODE_ATTRIBUTE
        && (target.getTargetValues() == null || target.getTargetValues().isEmpty()));
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.AttemptDiagnostics;
import io.treadle.shim.Log;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.RejectedSchedulingRequest;
import org.apache.hadoop.yarn.api.records.RejectionReason;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.AbstractConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.CompositeConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.DelayedOr;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.Allocation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;

/**
 * Placement constraints that the RM takes and cannot judge. One that compares an attribute with nothing makes stock
 * code throw on the scheduler's own thread, which ends the RM: such a request is kept from the scheduler, and its AM
 * gets it back as rejected. A {@code DelayedOr} is never satisfied. The application's diagnostics say either.
 */
public final class Unjudgeable {
  private static final Log LOG = new Log(Unjudgeable.class);
  private final AtomicInteger linesLeft = new AtomicInteger(64);

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
      Flaw flaw = flaw(context.getPlacementConstraintManager(), id, request);
      if (flaw != Flaw.NOTHING_COMPARED) {
        kept.add(request);
      }
      if (flaw != null) {
        AttemptDiagnostics.report(app, id, flaw.text);
        if (linesLeft.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
          LOG.warn("{}: {}", id, flaw.text);
        }
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

  private static Flaw flaw(PlacementConstraintManager manager, ApplicationAttemptId id, SchedulingRequest request) {
    PlacementConstraint own = request.getPlacementConstraint();
    PlacementConstraint all = manager == null ? own
        : manager.getMultilevelConstraint(id.getApplicationId(), request.getAllocationTags(), own);
    return all == null ? null : flaw(all.getConstraintExpr());
  }

  private static Flaw flaw(AbstractConstraint constraint) {
    if (constraint instanceof CompositeConstraint) {
      Flaw found = constraint instanceof DelayedOr ? Flaw.DELAYED_OR : null;
      for (Object child : ((CompositeConstraint<?>) constraint).getChildren()) {
        Flaw one = child instanceof AbstractConstraint ? flaw((AbstractConstraint) child) : null;
        found = one == Flaw.NOTHING_COMPARED || found == null ? one : found;
      }
      return found;
    }
    Collection<TargetExpression> targets = Collections.emptySet();
    if (constraint instanceof SingleConstraint) {
      targets = ((SingleConstraint) constraint).getTargetExpressions();
    } else if (constraint instanceof TargetConstraint) {
      targets = ((TargetConstraint) constraint).getTargetExpressions();
    }
    return targets.stream().anyMatch(target -> target.getTargetType() == TargetExpression.TargetType.NODE_ATTRIBUTE
        && (target.getTargetValues() == null || target.getTargetValues().isEmpty())) ? Flaw.NOTHING_COMPARED : null;
  }

  /** A flaw of a constraint, and its remedy. */
  private enum Flaw {
    NOTHING_COMPARED("a placement constraint compares a node attribute with nothing, which the ResourceManager cannot"
        + " judge: the request is rejected; name a value"),
    DELAYED_OR("a placement constraint has a delayed-or, which the ResourceManager takes and never satisfies: use or");

    private final String text;

    Flaw(String text) {
      this.text = text;
    }
  }
}

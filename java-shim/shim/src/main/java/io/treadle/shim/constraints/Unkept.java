// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import io.treadle.shim.Log;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Requirements that are not kept: of applications whose asks the stock scheduler would place without looking at them,
 * since {@link TreadlePlacementAllocator} is not installed, and containers that it did place against one. Reports to
 * applications what is wrong with theirs. Any thread; no lock of the RM is taken.
 */
public final class Unkept {
  private static final Log LOG = new Log(Unkept.class);
  /** Applications that are remembered, each with one line in the log. */
  private static final int APPLICATIONS = 64;
  /** Request keys of an application that are looked at. */
  private static final int KEYS = 16;
  private static final String NOT_INSTALLED =
      "the stock scheduler does not look at it: set yarn.scheduler.app-placement-allocator.class to "
      + TreadlePlacementAllocator.class.getName() + " (Hadoop 3.4 on) and restart the ResourceManager";
  private static final String HAS_CONSTRAINTS =
      "its SchedulingRequests are placed by an allocator of YARN's own while no"
      + " engine schedules: put what it requires into their constraints, too";

  private final LongAdder placedAgainst = new LongAdder();
  /** By application what is to be said; those that have ended go when the text is read or others come. */
  private final Map<ApplicationId, String> unkept = new LinkedHashMap<ApplicationId, String>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<ApplicationId, String> eldest) {
      return size() > APPLICATIONS;
    }
  };
  private int logged;

  /** An application master has asked, or sent a heartbeat. Its thread. */
  public void asked(RMContext context, FiCaSchedulerApp attempt) {
    ApplicationAttemptId id = attempt.getApplicationAttemptId();
    RMApp app = context.getRMApps().get(id.getApplicationId());
    Requirement requirement = Requirements.of(app);
    if (requirement.isNone() || attempt.isWaitingForAMContainer()) {
      return;
    }
    if (requirement.error() != null) {
      Requirements.report(app, id, requirement.error());
    }
    String why = why(attempt);
    if (why == null) {
      return;
    }
    String what = requirement.error() == null ? "'" + requirement.text() + "'"
        : "what cannot be read (" + requirement.error() + ")";
    String text = id.getApplicationId() + " requires " + what + ", and " + why;
    synchronized (unkept) {
      if (unkept.put(id.getApplicationId(), text) == null && logged < APPLICATIONS) {
        logged++;
        LOG.warn("{}", text);
      }
    }
  }

  /** Why the stock scheduler would not keep to what an application requires; null if it would, or asks for nothing. */
  private static String why(FiCaSchedulerApp attempt) {
    int left = KEYS;
    for (SchedulerRequestKey key : attempt.getSchedulerKeys()) {
      AppPlacementAllocator<?> allocator = attempt.getAppPlacementAllocator(key);
      if (allocator != null && !(allocator instanceof TreadlePlacementAllocator)) {
        return allocator.getSchedulingRequest() == null ? NOT_INSTALLED : HAS_CONSTRAINTS;
      }
      if (--left == 0) {
        break;
      }
    }
    return null;
  }

  /** The stock scheduler has placed a container. */
  public void placedNatively(RMContext context, SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed) {
    FiCaSchedulerApp attempt = placed.getSchedulerApplicationAttempt();
    RMApp app = context.getRMApps().get(attempt.getApplicationId());
    if (placed.getSchedulerRequestKey().getContainerToUpdate() == null
        && !Requirements.of(app).admits(placed.getSchedulerNode())
        && !Requirements.isMaster(app, placed.getRmContainer().getContainerId())) {
      placedAgainst.increment();
    }
  }

  /** How many containers the stock scheduler has placed against a requirement. */
  public long placedAgainst() {
    return placedAgainst.sum();
  }

  /** Whose requirements the stock scheduler would not look at, and what to do about it; empty if there are none. */
  public String text(CapacityScheduler scheduler) {
    synchronized (unkept) {
      unkept.keySet().removeIf(id -> !scheduler.getSchedulerApplications().containsKey(id));
      if (unkept.isEmpty()) {
        return "";
      }
      String first = unkept.values().iterator().next();
      return unkept.size() == 1 ? first : "of " + unkept.size() + " applications the first: " + first;
    }
  }
}

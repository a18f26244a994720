package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.SchedulerContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.util.resource.Resources;

/** A TreadleScheduler that looks after each commit whether a limit is broken. One test at a time. */
public class CheckedScheduler extends TreadleScheduler {
  private static final Queue<String> MISTAKES = new ConcurrentLinkedQueue<>();
  private static volatile String claiming = "";
  private static volatile long claimMb;

  /** Begins a test. Applications of a type may have so much memory together, MB. */
  static void reset(String type, long mostMb) {
    MISTAKES.clear();
    claiming = type;
    claimMb = mostMb;
  }

  /** What was found since then. */
  static Queue<String> mistakes() {
    return MISTAKES;
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    boolean committed = super.tryCommit(cluster, request, updatePending);
    if (committed && request.anythingAllocatedOrReserved()) {
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> done = request;
      look(done.getFirstAllocatedOrReservedContainer().getAllocatedOrReservedContainer());
    }
    return committed;
  }

  private void look(SchedulerContainer<FiCaSchedulerApp, FiCaSchedulerNode> placed) {
    FiCaSchedulerNode node = placed.getSchedulerNode();
    if (!Resources.fitsIn(Resources.none(), node.getUnallocatedResource())) {
      MISTAKES.add(node.getNodeName() + " has " + node.getUnallocatedResource() + " left");
    }
    FiCaSchedulerApp app = placed.getSchedulerApplicationAttempt();
    for (CSQueue queue = (CSQueue) app.getQueue(); queue != null; queue = queue.getParent()) {
      Resource used = queue.getQueueResourceUsage().getUsed();
      if (!Resources.fitsIn(used, queue.getEffectiveMaxCapacity(""))) {
        MISTAKES.add(queue.getQueuePath() + " uses " + used);
      }
    }
    long claimedMb = getSchedulerApplications().values().stream().map(known -> known.getCurrentAppAttempt())
        .filter(each -> each != null && claiming.equals(type(each)))
        .mapToLong(each -> each.getCurrentConsumption().getMemorySize()).sum();
    if (claiming.equals(type(app)) && claimedMb > claimMb) {
      MISTAKES.add(claiming + " uses " + claimedMb + " MB");
    }
  }

  private String type(FiCaSchedulerApp app) {
    return rmContext.getRMApps().get(app.getApplicationId()).getApplicationType();
  }
}

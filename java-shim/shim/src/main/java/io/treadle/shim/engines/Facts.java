package io.treadle.shim.engines;

import java.util.Collections;
import java.util.Set;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** What selectors go by. Immutable. */
final class Facts {
  final int id;
  final String queue;
  final String type;
  final String user;
  final Set<String> tags;
  /** Outstanding and running containers, without the AM's. */
  final int tasks;

  Facts(int id, String queue, String type, String user, Set<String> tags, int tasks) {
    this.id = id;
    this.queue = queue;
    this.type = type;
    this.user = user;
    this.tags = tags;
    this.tasks = tasks;
  }

  static Facts of(FiCaSchedulerApp app, RMContext context) {
    RMApp known = context.getRMApps().get(app.getApplicationId());
    String type = known == null || known.getApplicationType() == null ? "" : known.getApplicationType();
    Set<String> tags = known == null || known.getApplicationTags() == null ? Collections.emptySet()
        : known.getApplicationTags();
    return new Facts(app.getApplicationId().getId(), ((CSQueue) app.getQueue()).getQueuePath(), type, app.getUser(), tags,
        tasks(app));
  }

  /** Whether an application asks for tasks, so that their number is known. */
  static boolean asks(FiCaSchedulerApp app) {
    return !app.isWaitingForAMContainer() && outstanding(app) > 0;
  }

  private static int tasks(FiCaSchedulerApp app) {
    if (app.isWaitingForAMContainer()) {
      return 0;
    }
    long tasks = outstanding(app);
    for (RMContainer container : app.getLiveContainers()) {
      tasks += container.isAMContainer() ? 0 : 1;
    }
    return (int) Math.min(Integer.MAX_VALUE, tasks);
  }

  private static long outstanding(FiCaSchedulerApp app) {
    long outstanding = 0;
    for (SchedulerRequestKey key : app.getSchedulerKeys()) {
      outstanding += key.getContainerToUpdate() == null ? app.getOutstandingAsksCount(key) : 0;
    }
    return outstanding;
  }
}

package io.treadle.sls;

import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.scheduler.SchedulerMetrics;
import org.apache.hadoop.yarn.sls.scheduler.SchedulerWrapper;
import org.apache.hadoop.yarn.sls.scheduler.Tracker;

/** What a scheduler that is measured in SLS says the same whichever it is. */
interface MeasuredScheduler extends SchedulerWrapper {
  /** What measures it. */
  SlsMeasurements measurements();

  /** The queue of a name, as the CapacityScheduler finds it. */
  CSQueue getQueue(String queue);

  @Override
  default String getRealQueueName(String queue) {
    return getQueue(queue).getQueuePath();
  }

  /** None: SLS's own metrics are switched off. */
  @Override
  default SchedulerMetrics getSchedulerMetrics() {
    return null;
  }

  @Override
  default Tracker getTracker() {
    return measurements().tracker();
  }

  @Override
  default void setSLSRunner(SLSRunner runner) {
    measurements().setRunner(runner);
  }

  @Override
  default SLSRunner getSLSRunner() {
    return measurements().runner();
  }
}

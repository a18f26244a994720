package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.Await;
import io.treadle.shim.config.ShimConfig;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;

/** Small ResourceManagers for tests. */
final class TestRms {
  private TestRms() {
  }

  static YarnConfiguration configuration(String mode) {
    CapacitySchedulerConfiguration queues = new CapacitySchedulerConfiguration();
    YarnConfiguration conf = new YarnConfiguration(queues);
    conf.setClass(YarnConfiguration.RM_SCHEDULER, TreadleScheduler.class, ResourceScheduler.class);
    conf.set(ShimConfig.MODE, mode);
    return conf;
  }

  static TreadleScheduler scheduler(MockRM rm) {
    return (TreadleScheduler) rm.getResourceScheduler();
  }

  static RMApp submit(MockRM rm, int memoryMb) throws Exception {
    return MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(memoryMb, 1), rm).withQueue("default").build());
  }

  static MockAM launch(MockRM rm, RMApp app, MockNM node) throws Exception {
    return MockRM.launchAndRegisterAM(app, rm, node);
  }

  /**
   * Submits an application whose AM an engine places. MockRM's own way waits for a state before that, which with an
   * engine may have passed by the time it looks.
   */
  static MockAM launchByEngine(MockRM rm, int memoryMb) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, MockRMAppSubmissionData.Builder
        .createWithResource(Resource.newInstance(memoryMb, 1), rm).withQueue("default")
        .withWaitForAppAcceptedState(false).build());
    return launchByEngine(rm, app);
  }

  /** Waits until an engine has placed an application's AM, and registers it. */
  static MockAM launchByEngine(MockRM rm, RMApp app) throws Exception {
    Await.until("the AM has its container", () -> app.getCurrentAppAttempt() != null
        && app.getCurrentAppAttempt().getState() == RMAppAttemptState.ALLOCATED);
    ApplicationAttemptId attempt = app.getCurrentAppAttempt().getAppAttemptId();
    MockAM am = rm.sendAMLaunched(attempt);
    rm.waitForState(attempt, RMAppAttemptState.LAUNCHED);
    am.registerAppAttempt();
    rm.waitForState(app.getApplicationId(), RMAppState.RUNNING);
    return am;
  }

  static void refresh(MockRM rm, Configuration conf) throws Exception {
    rm.getResourceScheduler().reinitialize(conf, rm.getRMContext());
  }
}

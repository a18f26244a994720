// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import io.treadle.shim.cluster.ClusterFixture;
import java.util.Collections;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What an engine says of applications, on the ResourceManager's pages. */
class AttemptDiagnosticsTest {
  private static final String TEXT = "no node of the cluster is as large as it asks";

  private ClusterFixture cluster;
  private MockNM node;

  @BeforeEach
  void start() throws Exception {
    cluster = ClusterFixture.cluster().start();
    node = cluster.node("n1", 8192, 8);
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private RMApp submit(boolean unmanaged) throws Exception {
    return MockRMAppSubmitter.submit(cluster.rm(), MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm())
        .withQueue("a").withUser("ann").withUnmanagedAM(unmanaged).build());
  }

  private void assertShownAndTakenBack(RMApp job) {
    ApplicationAttemptId attempt = job.getCurrentAppAttempt().getAppAttemptId();
    AttemptDiagnostics diagnostics = new AttemptDiagnostics();
    diagnostics.show(cluster.rm().getRMContext(), Collections.singletonMap(attempt, TEXT));
    assertEquals(TEXT, job.getDiagnostics().toString());
    diagnostics.show(cluster.rm().getRMContext(), Collections.emptyMap());
    assertEquals("", job.getDiagnostics().toString());
  }

  @Test
  void anApplicationWithItsMasterShowsIt() throws Exception {
    RMApp job = submit(false);
    cluster.startAm(job, node);
    assertShownAndTakenBack(job);
  }

  /** It never has a container of a master. */
  @Test
  void anUnmanagedApplicationShowsIt() throws Exception {
    RMApp job = submit(true);
    MockAM am = new MockAM(cluster.rm().getRMContext(), cluster.rm().getApplicationMasterService(),
        job.getCurrentAppAttempt().getAppAttemptId());
    am.registerAppAttempt();
    // it clears the diagnostics
    cluster.rm().drainEvents();
    assertShownAndTakenBack(job);
  }

  /** Until then the ResourceManager says there what the master waits for. */
  @Test
  void anApplicationWithoutItsMasterDoesNot() throws Exception {
    RMApp job = submit(false);
    new AttemptDiagnostics().show(cluster.rm().getRMContext(),
        Collections.singletonMap(job.getCurrentAppAttempt().getAppAttemptId(), TEXT));
    assertNotEquals(TEXT, job.getDiagnostics().toString());
  }
}

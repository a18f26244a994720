// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.Await;
import io.treadle.shim.link.ScriptedEngine;
import java.util.Collections;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewReservationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.ReservationSubmissionRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.ReservationDefinition;
import org.apache.hadoop.yarn.api.records.ReservationId;
import org.apache.hadoop.yarn.api.records.ReservationRequest;
import org.apache.hadoop.yarn.api.records.ReservationRequestInterpreter;
import org.apache.hadoop.yarn.api.records.ReservationRequests;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.ClientRMService;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.reservation.NoOverCommitPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * YARN's reservation system works beside us: it makes queues and says how much of the cluster is theirs, and an engine
 * places in them as in any other queue.
 */
@Timeout(300)
class ReservationSystemInRmTest {
  private static final String QUEUES = "yarn.scheduler.capacity.root.";
  private static final long HOUR_MS = 3_600_000;

  private MockRM rm;

  @AfterEach
  void stop() {
    TestRms.stop(rm);
  }

  private TreadleScheduler scheduler() {
    return TestRms.scheduler(rm);
  }

  private void start() {
    YarnConfiguration conf = TestRms.withEngine("enforce");
    conf.setBoolean(YarnConfiguration.RM_RESERVATION_SYSTEM_ENABLE, true);
    conf.setLong(YarnConfiguration.RM_RESERVATION_SYSTEM_PLAN_FOLLOWER_TIME_STEP, 100);
    conf.set(QUEUES + "queues", "default,plan");
    conf.set(QUEUES + "default.capacity", "50");
    conf.set(QUEUES + "plan.capacity", "50");
    conf.set(QUEUES + "plan.reservable", "true");
    conf.set(QUEUES + "plan.reservation-policy", NoOverCommitPolicy.class.getName());
    rm = TestRms.start(conf, ScriptedEngine::proposeAll);
  }

  /** Half of the plan's 8 GB, now and for an hour. */
  private ReservationId reserve() throws Exception {
    Await.until("the plan knows what there is",
        () -> rm.getRMContext().getReservationSystem().getPlan("plan").getTotalCapacity().getMemorySize() == 8192);
    ClientRMService service = rm.getClientRMService();
    ReservationId id = service.getNewReservation(GetNewReservationRequest.newInstance()).getReservationId();
    ReservationRequest wanted = ReservationRequest.newInstance(Resource.newInstance(1024, 1), 4, 4, HOUR_MS);
    long nowMs = System.currentTimeMillis();
    service.submitReservation(ReservationSubmissionRequest.newInstance(
        ReservationDefinition.newInstance(nowMs, nowMs + HOUR_MS + 5000, ReservationRequests.newInstance(
            Collections.singletonList(wanted), ReservationRequestInterpreter.R_ALL), "test"), "plan", id));
    Await.until("the reservation has its queue", () -> scheduler().getQueue(id.toString()) != null
        && scheduler().getQueue(id.toString()).getCapacity() > 0);
    return id;
  }

  private RMApp submit(ReservationId reservation) throws Exception {
    ClientRMService service = rm.getClientRMService();
    ApplicationId id = service.getNewApplication(GetNewApplicationRequest.newInstance()).getApplicationId();
    ApplicationSubmissionContext context = ApplicationSubmissionContext.newInstance(id, "reserved", "root.plan",
        Priority.newInstance(0),
        ContainerLaunchContext.newInstance(null, null, Collections.emptyList(), null, null, null),
        false, false, 1, Resource.newInstance(1024, 1));
    context.setReservationID(reservation);
    service.submitApplication(SubmitApplicationRequest.newInstance(context));
    return rm.getRMContext().getRMApps().get(id);
  }

  @Test
  void anEnginePlacesInTheQueueOfAReservation() throws Exception {
    start();
    MockNM node = rm.registerNode("h1:1234", 16_384);
    ReservationId reservation = reserve();
    // stock's habit: how many MB a queue's new share is, is computed when the next node comes or goes
    rm.registerNode("h2:1234", 1024);
    RMApp app = submit(reservation);
    MockAM am = TestRms.launchByEngine(rm, app);
    am.allocate("*", 1024, 2, Collections.emptyList());
    TestRms.heartbeatUntil(node, "the AM and 2 containers are there", () -> TestRms.containers(rm, node) == 3);
    // a commit changes the node first, and the queue a moment later
    Await.until("the queue has them too", () ->
        scheduler().getQueue(reservation.toString()).getQueueResourceUsage().getUsed().getMemorySize() == 3072);
    assertEquals(0, TestRms.number(rm, "PlacedByCapacityScheduler"));
    assertEquals("", TestRms.text(rm, "Refusal"));
  }
}

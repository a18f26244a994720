// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.cluster.Answers;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.NamedIndices;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.cluster.Submitter;
import io.treadle.shim.wire.Fate;
import io.treadle.shim.wire.ProposalFrame;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.function.Supplier;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerUtils;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GatedScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;
import org.apache.hadoop.yarn.util.resource.DominantResourceCalculator;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Days of a ResourceManager whose engine does what the test says, on the test's clock. */
@Timeout(300)
class StarvationGuardTest {
  private static final int STARVATION_MS = 600_000;
  private static final int LOOK_S = STARVATION_MS / 4000;
  private static final int HOUR_S = 3600;
  private static final int DAY_S = 24 * HOUR_S;
  private static final int STEP_S = 10;
  private static final int PRIORITY = 1;
  private static final int AGAIN = 2;
  private static final int HELD = 16;
  private static final BitSet NOTHING = new BitSet();

  private static StarvationGuard guard;

  private final NamedIndices indices = new NamedIndices();
  private ClusterFixture cluster;
  private Proposer proposer;
  private Committer committer;
  private MockNM node;
  private long nowMs = 1_000_000;
  private int placed;
  private int flags;

  @AfterEach
  void stop() {
    guard = null;
    cluster.close();
    ResourceUtils.resetResourceTypes();
  }

  /** A scheduler of which the guard hears as of Treadle's. */
  public static final class WatchedScheduler extends GatedScheduler {
    @Override
    @SuppressWarnings({"rawtypes", "unchecked"})
    public boolean tryCommit(Resource resources, ResourceCommitRequest request, boolean updatePending) {
      boolean committed = super.tryCommit(resources, request, updatePending);
      ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> known = request;
      if (committed && guard != null) {
        guard.placed(known.getFirstAllocatedOrReservedContainer().getAllocatedOrReservedContainer());
      }
      return committed;
    }
  }

  private void start(int nodeMb, long holdS) throws Exception {
    start(ClusterFixture.cluster(), () -> Resource.newInstance(nodeMb, 64), holdS);
  }

  private void start(ClusterFixture.Builder description, Supplier<Resource> size, long holdS) throws Exception {
    cluster = description.set("maximum-am-resource-percent", "1")
        .with(conf -> conf.setClass(YarnConfiguration.RM_SCHEDULER, WatchedScheduler.class, ResourceScheduler.class))
        .start();
    node = cluster.node("one", size.get());
    indices.of(node.getNodeId());
    CommitSettings settings = new CommitSettings(48, Proposer.NODE_STALE_MS, () -> nowMs);
    proposer = new Proposer(cluster, settings);
    committer = proposer.committer();
    guard = new StarvationGuard(cluster.scheduler(), settings, committer, () -> placed++);
    guard.configure(STARVATION_MS, holdS * 1000);
    cluster.scheduler().setClosed(true);
  }

  private MockAM app(String user) throws Exception {
    return cluster.startAm(cluster.submit("a", user, 1024), node);
  }

  private FiCaSchedulerApp attempt(MockAM am) {
    return cluster.scheduler().getApplicationAttempt(am.getApplicationAttemptId());
  }

  /** An application that asks, as the mirror sends it. */
  private FiCaSchedulerApp asks(MockAM am, int memoryMb, int containers) throws Exception {
    am.allocate("*", memoryMb, containers, Collections.emptyList());
    return sent(am, PRIORITY);
  }

  private FiCaSchedulerApp sent(MockAM am, int priority) {
    FiCaSchedulerApp app = attempt(am);
    indices.of(app.getApplicationAttemptId(), Proposer.key(app, priority));
    return app;
  }

  private int[] proposal(FiCaSchedulerApp app) {
    ApplicationAttemptId id = app.getApplicationAttemptId();
    return new int[] {indices.of(id), indices.of(id, Proposer.key(app, PRIORITY)), 0};
  }

  private BitSet named(FiCaSchedulerApp app) {
    BitSet bits = new BitSet();
    bits.set(indices.of(app.getApplicationAttemptId()));
    return bits;
  }

  /** The engine's answer, a step after the last one; answers how many of its proposals were committed. */
  private int answer(BitSet heldApplications, BitSet heldNodes, int[]... rows) throws Exception {
    nowMs += STEP_S * 1000;
    ProposalFrame frame = ProposalFrame.parse(Answers.encode(
        flags, 1, 1, 0, "", heldApplications, heldNodes, rows), rows.length);
    int count = committer.commit(frame, indices, rows.length, () -> true, () -> false).count(Fate.COMMITTED);
    guard.answered(frame, indices, count, () -> true, () -> false);
    return count;
  }

  private int answer(int[]... rows) throws Exception {
    return answer(NOTHING, NOTHING, rows);
  }

  /** Answers that hold back the same all the time and propose nothing; answers after how long the shim placed one. */
  private int secondsUntilPlaced(int mostS, BitSet heldApplications, BitSet heldNodes) throws Exception {
    flags |= HELD;
    for (int second = 0; second < mostS; second += STEP_S) {
      answer(heldApplications, heldNodes);
      if (placed > 0) {
        return second;
      }
    }
    return mostS;
  }

  private void end(FiCaSchedulerApp app) {
    for (RMContainer container : app.getLiveContainers()) {
      if (!container.isAMContainer()) {
        cluster.scheduler().completedContainer(container, SchedulerUtils.createAbnormalContainerStatus(
            container.getContainerId(), "ended"), RMContainerEventType.KILL);
        return;
      }
    }
  }

  // The proof P5-Guard: three days in which the guard of before did nothing.

  @Test
  void whileAnotherApplicationGetsAContainerNowAndThenANeglectedOneIsServed() throws Exception {
    start(256 << 10, HOUR_S);
    MockAM ann = app("ann");
    FiCaSchedulerApp neglected = asks(app("bob"), 1024, 3);
    FiCaSchedulerApp favoured = asks(ann, 1024, 10_000);
    for (int second = 0; second < DAY_S && placed < 3; second += STEP_S) {
      answer(second % 60 == 0 ? new int[][] {proposal(favoured)} : new int[0][]);
      assertTrue(second < 3 * (STARVATION_MS / 1000 + LOOK_S), "served in time");
    }
    assertEquals(4, neglected.getLiveContainers().size());
    assertNull(guard.suspension(), "the engine places for others");
  }

  @Test
  void thatContainersEndIsNoExcuseAndOneThatIsHeldOnPurposeIsServedAfterAnHour() throws Exception {
    start(16 << 10, HOUR_S);
    MockAM ann = app("ann");
    FiCaSchedulerApp held = asks(app("bob"), 1024, 1);
    FiCaSchedulerApp ends = asks(ann, 1024, 8);
    for (int i = 0; i < 8; i++) {
      assertEquals(1, answer(proposal(ends)));
    }
    ann.allocate(new ArrayList<>(), new ArrayList<>());
    flags |= HELD;
    int second = 0;
    for (; second < DAY_S && placed == 0; second += STEP_S) {
      if (second % 590 == 0) {
        end(ends);
      }
      answer(named(held), NOTHING);
    }
    int most = HOUR_S + STARVATION_MS / 1000;
    assertTrue(second > most - LOOK_S && second <= most + 2 * LOOK_S, "after " + second + " s");
    assertEquals(2, held.getLiveContainers().size());
  }

  @Test
  void whoHasMoreToSayAllDayIsNoExcuse() throws Exception {
    start(16 << 10, HOUR_S);
    asks(app("ann"), 1024, 1);
    flags = AGAIN;
    assertTrue(secondsUntilPlaced(DAY_S, NOTHING, NOTHING) <= STARVATION_MS / 1000 + LOOK_S);
  }

  @Test
  void anEngineThatServesAllButGpus() throws Exception {
    start(ClusterFixture.cluster().site(YarnConfiguration.RESOURCE_TYPES, "yarn.io/gpu")
        .set("resource-calculator", DominantResourceCalculator.class.getName()), () -> gpus(64 << 10, 4), HOUR_S);
    MockAM ann = app("ann");
    MockAM learner = app("bob");
    FiCaSchedulerApp plain = asks(ann, 1024, 10_000);
    learner.allocate(Collections.singletonList(ResourceRequest.newBuilder().priority(Priority.newInstance(PRIORITY))
        .resourceName("*").capability(gpus(2048, 2)).numContainers(2).build()), new ArrayList<>());
    FiCaSchedulerApp neglected = sent(learner, PRIORITY);
    for (int second = 0; second < 2 * HOUR_S; second += STEP_S) {
      if (plain.getLiveContainers().size() > 30) {
        end(plain);
      }
      assertEquals(1, answer(proposal(plain)));
    }
    assertEquals(2, placed);
    assertEquals(3, neglected.getLiveContainers().size());
    assertNull(guard.suspension());
  }

  private static Resource gpus(int memoryMb, int gpus) {
    Resource resource = Resource.newInstance(memoryMb, memoryMb / 1024);
    resource.setResourceValue("yarn.io/gpu", gpus);
    return resource;
  }

  // Days in which the shim must place nothing.

  /** At each look there is room, which the next answer gives to others. */
  @Test
  void roomThatOthersTakeIsOrder() throws Exception {
    start(6 << 10, DAY_S);
    MockAM ann = app("ann");
    FiCaSchedulerApp last = asks(app("bob"), 1024, 10_000);
    FiCaSchedulerApp first = asks(ann, 1024, 10_000);
    for (int i = 0; i < 4; i++) {
      answer(proposal(first));
    }
    for (int second = 0; second < DAY_S; second += 2 * STEP_S) {
      end(first);
      answer();
      assertEquals(1, answer(proposal(first)));
    }
    assertEquals(0, placed);
    assertEquals(1, last.getLiveContainers().size());
  }

  /** As with pilots that do not conserve work, claims, and workers of MapReduce. */
  @Test
  void anApplicationThatIsHeldOnPurposeWaits() throws Exception {
    start(16 << 10, DAY_S);
    FiCaSchedulerApp held = asks(app("ann"), 1024, 8);
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, named(held), NOTHING));
  }

  /** Each container that comes is a reason to hold others back for as long again. */
  @Test
  void workersThatRunLetOthersWaitLonger() throws Exception {
    start(16 << 10, HOUR_S);
    FiCaSchedulerApp held = asks(app("ann"), 1024, 10_000);
    flags |= HELD;
    for (int second = 0; second < DAY_S; second += STEP_S) {
      boolean next = second % 3000 == 0;
      if (next) {
        end(held);
      }
      assertEquals(next ? 1 : 0, answer(named(held), NOTHING, next ? new int[][] {proposal(held)} : new int[0][]));
    }
    assertEquals(0, placed);
  }

  @Test
  void aNodeThatKeepsRoomForALargerAskStaysFree() throws Exception {
    start(16 << 10, DAY_S);
    asks(app("ann"), 1024, 8);
    BitSet nodes = new BitSet();
    nodes.set(0);
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, NOTHING, nodes));
  }

  @Test
  void whatOnlyTheEngineUnderstandsIsLeftToIt() throws Exception {
    start(16 << 10, HOUR_S);
    List<MockAM> masters = new ArrayList<>();
    for (String tag : new String[] {"treadle:require=((", "treadle:require=zone=a", "treadle:gang=4"}) {
      RMApp tagged = Submitter.submit(cluster.rm(), "a", 1024, Collections.singleton(tag));
      masters.add(cluster.startAm(tagged, node));
    }
    for (MockAM master : masters) {
      asks(master, 1024, 4);
    }
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, NOTHING, NOTHING));
  }

  @Test
  void whatTheMirrorHasNotSentIsNotTheEnginesFault() throws Exception {
    start(16 << 10, HOUR_S);
    app("ann").allocate("*", 1024, 4, Collections.emptyList());
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, NOTHING, NOTHING));
  }

  @Test
  void whoNamesMorePlacesThanAreSentIsLeftToTheEngine() throws Exception {
    start(16 << 10, HOUR_S);
    asks(app("ann"), 1024, 4);
    indices.partial();
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, NOTHING, NOTHING));
  }

  /** A million keys of applications that can get nothing do not make a tick long, nor hide the one that could. */
  @Test
  void aMillionKeysAreLookedAtInTurns() throws Exception {
    start(16 << 10, HOUR_S);
    FiCaSchedulerApp neglected = asks(app("ann"), 1024, 1);
    SchedulerRequestKey key = Proposer.key(neglected, PRIORITY);
    List<SchedulerRequestKey> looked = new ArrayList<>();
    for (int app = 0; app < 500; app++) {
      indices.of(ApplicationAttemptId.newInstance(ApplicationId.newInstance(7, app), 1));
    }
    NamedIndices many = new NamedIndices() {
      @Override
      public int requestKeys(int application) {
        return application == 0 ? 1 : 2000;
      }

      @Override
      public SchedulerRequestKey requestKey(int application, int number) {
        looked.add(key);
        return key;
      }

      @Override
      public int applications() {
        return indices.applications();
      }

      @Override
      public ApplicationAttemptId application(int index) {
        return indices.application(index);
      }
    };
    many.of(node.getNodeId());
    ProposalFrame empty = ProposalFrame.parse(Answers.encode(0, 1, 1, 0, ""), 0);
    int ticks = 0;
    for (; placed == 0 && ticks < 5000; ticks++) {
      nowMs += 1000;
      looked.clear();
      guard.answered(empty, many, 0, () -> true, () -> false);
      assertTrue(looked.size() <= 2 * 8192, looked.size() + " looks in a tick");
    }
    assertTrue(ticks >= STARVATION_MS / 1000 && ticks < 3 * STARVATION_MS / 1000, ticks + " s");
    assertEquals(2, neglected.getLiveContainers().size());
  }

  // When the lease goes.

  @Test
  void anEngineThatNeglectsTwoApplicationsAndPlacesNothingIsSuspended() throws Exception {
    start(16 << 10, HOUR_S);
    MockAM ann = app("ann");
    asks(app("bob"), 1024, 8);
    asks(ann, 1024, 8);
    assertTrue(secondsUntilPlaced(DAY_S, NOTHING, NOTHING) <= STARVATION_MS / 1000 + LOOK_S);
    assertEquals(2, placed);
    String why = guard.suspension();
    assertNotNull(why);
    assertTrue(why.contains("places nothing") && why.contains("starvation-ms"), why);
    nowMs += 6L * STARVATION_MS;
    assertNull(guard.suspension(), "it gets another chance");
    placed = 0;
    secondsUntilPlaced(DAY_S, NOTHING, NOTHING);
    assertNotNull(guard.suspension());
    guard.configure(STARVATION_MS, HOUR_S * 1000L);
    assertNull(guard.suspension());
  }

  @Test
  void oneApplicationAloneDoesNotSuspendIt() throws Exception {
    start(16 << 10, HOUR_S);
    asks(app("ann"), 1024, 8);
    secondsUntilPlaced(DAY_S, NOTHING, NOTHING);
    assertEquals(1, placed);
    assertNull(guard.suspension());
  }

  @Test
  void withoutAnEngineForAWhileLooksBeginAgain() throws Exception {
    start(16 << 10, HOUR_S);
    asks(app("ann"), 1024, 8);
    for (int look = 0; look < 8; look++) {
      nowMs += STARVATION_MS;
      answer();
    }
    assertEquals(0, placed);
  }

  @Test
  void whoGotAContainerWhileThereWasNoEngineIsHeldForAsLongAgain() throws Exception {
    start(16 << 10, HOUR_S);
    FiCaSchedulerApp held = asks(app("ann"), 1024, 8);
    flags |= HELD;
    answer(named(held), NOTHING);
    nowMs += 2 * HOUR_S * 1000L;
    assertEquals(1, proposer.add(held, PRIORITY, node).commit().count(Fate.COMMITTED));
    assertEquals(HOUR_S - LOOK_S, secondsUntilPlaced(HOUR_S - LOOK_S, named(held), NOTHING));
  }

  @Test
  void forEverIsForEver() throws Exception {
    start(16 << 10, HOUR_S);
    guard.configure(0, 0);
    asks(app("ann"), 1024, 8);
    assertEquals(DAY_S, secondsUntilPlaced(DAY_S, NOTHING, NOTHING));
  }
}

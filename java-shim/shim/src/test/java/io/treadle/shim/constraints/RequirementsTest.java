// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.Await;
import io.treadle.shim.cluster.Accounting;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.cluster.Submitter;
import io.treadle.shim.wire.Fate;
import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerUpdateType;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.UpdateContainerRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainerState;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What applications require of nodes, in a real ResourceManager: placed by the stock scheduler and by proposals. */
class RequirementsTest {
  private static final int PRIORITY = 4;

  private ClusterFixture cluster;
  private MockNM plain;
  private MockNM special;

  @AfterEach
  void stop() {
    cluster.close();
  }

  private void start(boolean installed) throws Exception {
    ClusterFixture.Builder description = ClusterFixture.cluster();
    if (installed) {
      description.site("yarn.scheduler.app-placement-allocator.class", TreadlePlacementAllocator.class.getName());
    }
    cluster = description.start();
    plain = cluster.node("plain", 8192, 8);
    special = cluster.node("special", 8192, 8);
    attribute("zone", "A");
  }

  private void attribute(String name, String value) throws Exception {
    Set<NodeAttribute> set = new HashSet<>();
    set.add(NodeAttribute.newInstance(name, NodeAttributeType.STRING, value));
    cluster.rm().getRMContext().getNodeAttributesManager()
        .replaceNodeAttributes(null, Collections.singletonMap("special", set));
    cluster.rm().drainEvents();
  }

  private RMApp submit(String... tags) throws Exception {
    return Submitter.submit(cluster.rm(), "a", 1024, new TreeSet<>(Arrays.asList(tags)));
  }

  private void ask(MockAM am, int count) throws Exception {
    am.allocate(am.createReq(new String[] {"*"}, 1024, PRIORITY, count, -1), new ArrayList<>());
  }

  private Set<NodeId> placesAfter(MockAM am, int rounds) throws Exception {
    List<Container> given = new ArrayList<>();
    for (int i = 0; i < rounds; i++) {
      cluster.heartbeatAll();
      given.addAll(am.schedule().getAllocatedContainers());
    }
    Set<NodeId> places = new TreeSet<>();
    given.forEach(container -> places.add(container.getNodeId()));
    return places;
  }

  /** With no engine: the stock scheduler gives the master any node, and all else those that are required. */
  @Test
  void theStockSchedulerKeepsToThem() throws Exception {
    start(true);
    RMApp job = submit("treadle:require=zone=a");
    MockAM am = cluster.startAm(job, plain);
    ask(am, 12);
    assertEquals(Collections.singleton(special.getNodeId()), placesAfter(am, 12));
    FiCaSchedulerApp app = cluster.attempt(job);
    assertEquals(8, cluster.schedulerNode(special).getNumContainers(), "it is full");
    attribute("zone", "b");
    int before = app.getLiveContainers().size();
    placesAfter(am, 3);
    assertEquals(before, app.getLiveContainers().size(), "there is no such node any more");
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  @Test
  void anApplicationThatRequiresNothingGoesAnywhere() throws Exception {
    start(true);
    RMApp job = submit("etl", "treadle:prefer=zone=a");
    MockAM am = cluster.startAm(job, plain);
    ask(am, 12);
    assertEquals(new TreeSet<>(Arrays.asList(plain.getNodeId(), special.getNodeId())), placesAfter(am, 12));
  }

  /** Several tags and the environment: all of them must hold. */
  @Test
  void theEnvironmentOfTheMasterRequiresToo() throws Exception {
    start(true);
    RMApp job = Submitter.submit(cluster.rm(), "a", 1024, Collections.singleton("treadle:require=zone=a|b"),
        "TREADLE_REQUIRE", "memory-mb > 9000 ; Host=special", "TREADLE_PREFER", "zone=a", "OTHER", "x");
    MockAM am = cluster.startAm(job, plain);
    ask(am, 1);
    assertEquals(Collections.emptySet(), placesAfter(am, 3), "8192 is not more than 9000");
  }

  /** An engine's proposals are held to them where the allocator is installed; elsewhere the engine keeps to them. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void proposalsAreHeldToThem(boolean installed) throws Exception {
    start(installed);
    RMApp job = submit("treadle:require=zone=a");
    cluster.scheduler().setClosed(true);
    FiCaSchedulerApp app = cluster.attempt(job);
    Proposer proposer = new Proposer(cluster);
    assertEquals(Fate.COMMITTED, proposer.add(app, 0, plain).commit().fate(0), "the master goes anywhere");
    MockAM am = launched(job);
    ask(am, 3);
    Fate elsewhere = installed ? Fate.CONSTRAINT : Fate.COMMITTED;
    assertEquals(installed ? Fate.CONSTRAINT : Fate.OBSERVED, proposer.add(app, PRIORITY, plain).judge().fate(0));
    assertEquals(elsewhere, proposer.add(app, PRIORITY, plain).commit().fate(0));
    assertEquals(Fate.COMMITTED, proposer.add(app, PRIORITY, special).commit().fate(0));
    attribute("zone", "b");
    assertEquals(elsewhere, proposer.add(app, PRIORITY, special).commit().fate(0));
    assertEquals("", new Accounting(cluster.scheduler()).mistakes());
  }

  private MockAM launched(RMApp job) throws Exception {
    cluster.heartbeatAll();
    MockAM am = cluster.rm().sendAMLaunched(job.getCurrentAppAttempt().getAppAttemptId());
    am.registerAppAttempt();
    return am;
  }

  /** One that cannot be read holds the application, under the stock scheduler and an engine, and says so. */
  @Test
  void onesThatCannotBeReadAreMetByNoNode() throws Exception {
    start(true);
    RMApp job = submit("treadle:require=zone");
    MockAM am = cluster.startAm(job, plain);
    ask(am, 1);
    assertEquals(Collections.emptySet(), placesAfter(am, 3));
    String said = job.getDiagnostics().toString();
    assertTrue(said.contains("has 'zone', which is not name op value, as in zone=a"), said);
    cluster.scheduler().setClosed(true);
    assertEquals(Fate.CONSTRAINT,
        new Proposer(cluster).add(cluster.attempt(job), PRIORITY, special).commit().fate(0));
  }

  @Test
  void anEnvironmentThatIsTooLongIsMetByNoNode() throws Exception {
    start(true);
    StringBuilder text = new StringBuilder("zone=a");
    while (text.length() <= Requirement.MAX_VARIABLE_CHARS) {
      text.append("|a");
    }
    RMApp job = Submitter.submit(cluster.rm(), "a", 1024, Collections.emptySet(), "TREADLE_REQUIRE", text.toString());
    assertFalse(Requirement.of(job).admits(cluster.schedulerNode(special)));
    assertTrue(Requirement.of(job).error.contains("has ''"), Requirement.of(job).error);
  }

  /** Whatever users write, no more than a bounded number of texts is kept. */
  @Test
  void aHundredThousandRequirementsAreNotKept() throws Exception {
    start(true);
    for (int i = 0; i < 100_000; i++) {
      assertFalse(Requirement.of(Collections.singletonList("zone=z" + i)).admits(cluster.schedulerNode(special)));
    }
    assertTrue(Requirement.remembered() <= 1024);
  }

  /** A container that is made larger stays where it is, whatever has become of the node. */
  @Test
  void anUpdateOfAContainerIsNotHeldBack() throws Exception {
    start(true);
    RMApp job = submit("treadle:require=zone=a");
    MockAM am = cluster.startAm(job, plain);
    ask(am, 1);
    List<Container> given = new ArrayList<>();
    Await.until("it is placed", () -> {
      cluster.heartbeatAll();
      given.addAll(am.schedule().getAllocatedContainers());
      return !given.isEmpty();
    });
    ContainerId id = given.get(0).getId();
    special.nodeHeartbeat(am.getApplicationAttemptId(), id.getContainerId(), ContainerState.RUNNING);
    cluster.rm().waitForState(special, id, RMContainerState.RUNNING);
    attribute("zone", "b");
    am.sendContainerResizingRequest(Collections.singletonList(UpdateContainerRequest.newInstance(
        0, id, ContainerUpdateType.INCREASE_RESOURCE, Resource.newInstance(3072, 1), null)));
    Await.until("it is larger", () -> {
      cluster.heartbeatAll();
      return am.schedule().getUpdatedContainers().stream()
          .anyMatch(updated -> updated.getContainer().getResource().getMemorySize() == 3072);
    });
  }

  /** Attributes are set while others read them. */
  @Test
  void attributesThatChangeMeanwhileDoNoHarm() throws Exception {
    start(true);
    RMApp job = submit("treadle:require=zone=a");
    MockAM am = cluster.startAm(job, plain);
    Requirement requirement = Requirement.of(job);
    AtomicBoolean stopped = new AtomicBoolean();
    Map<Integer, NodeAttribute> live = new HashMap<>();
    for (int i = 0; i < 50; i++) {
      live.put(i, NodeAttribute.newInstance("a" + i, NodeAttributeType.STRING, "x"));
    }
    live.put(-1, NodeAttribute.newInstance("zone", NodeAttributeType.STRING, "a"));
    SchedulerNode node = cluster.schedulerNode(special);
    node.updateNodeAttributes(new AbstractSet<NodeAttribute>() {
      @Override
      public Iterator<NodeAttribute> iterator() {
        return live.values().iterator();
      }

      @Override
      public int size() {
        return live.size();
      }
    });
    Thread changer = new Thread(() -> {
      for (int i = 100; !stopped.get(); i++) {
        live.put(i, NodeAttribute.newInstance("b", NodeAttributeType.STRING, "x"));
        live.remove(i);
      }
    });
    changer.start();
    try {
      int met = 0;
      for (int i = 0; i < 20_000; i++) {
        met += admits(requirement, node) ? 1 : 0;
      }
      assertTrue(met > 0, "it could never be read");
    } finally {
      stopped.set(true);
      changer.join();
    }
    assertTrue(requirement.admits(node));
    assertEquals(job.getCurrentAppAttempt().getAppAttemptId(), am.getApplicationAttemptId());
  }

  /** What cannot be read now is read again at the next look. */
  private static boolean admits(Requirement requirement, SchedulerNode node) {
    try {
      return requirement.admits(node);
    } catch (ConcurrentModificationException e) {
      return false;
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeLabel;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceOption;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.attempt.RMAppAttemptState;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeDecommissioningEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEvent;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNodeEventType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeLabelsUpdateSchedulerEvent;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeResourceUpdateSchedulerEvent;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.junit.jupiter.api.Test;

/**
 * Whatever happens to a cluster, an engine that only reads frames knows what the scheduler knows. The taps suffice, but
 * for the states of nodes. The property {@code treadle.random.events} has how many things happen, {@code
 * treadle.random.seed} which.
 */
class RandomOperationsTest {
  private static final int EVENTS = Integer.getInteger("treadle.random.events", 2000);
  private static final long SEED = Long.getLong("treadle.random.seed", 1);
  private static final int APPLICATIONS = 5;
  private static final String QUEUES = "yarn.scheduler.capacity.root.";

  private final Random random = new Random(SEED);
  private final YarnConfiguration conf = Cluster.conf();
  private Cluster cluster;
  /** Has all masters, and stays. */
  private MockNM masters;
  private final List<MockNM> nodes = new ArrayList<>();
  private final List<MockAM> ams = new ArrayList<>();
  private final List<Container> pulled = new ArrayList<>();
  private final List<String> leaves = new ArrayList<>(Arrays.asList("a", "b"));
  private int nextNode;
  private int engines = 1;

  @Test
  void theMirrorEqualsTheTruth() throws Exception {
    conf.setInt(YarnConfiguration.RM_AM_MAX_ATTEMPTS, 1000);
    conf.set(QUEUES + "accessible-node-labels", "*");
    conf.setBoolean(YarnConfiguration.NODE_LABELS_ENABLED, true);
    conf.set(QUEUES + "accessible-node-labels.spare.capacity", "100");
    for (String leaf : leaves) {
      conf.set(QUEUES + leaf + ".accessible-node-labels.spare.capacity", "50");
    }
    MirrorSettings settings =
        new MirrorSettings(8192, Cluster.NEVER_MS, 0, Cluster.NEVER_MS);
    try (Cluster made = new Cluster(conf, settings, labels ->
        labels.addToCluserNodeLabels(Collections.singletonList(NodeLabel.newInstance("spare", false))))) {
      cluster = made;
      masters = cluster.rm.registerNode("masters:1234", 512 * 1024, 512);
      for (int i = 0; i < 3; i++) {
        addNode();
      }
      for (int i = 0; i < APPLICATIONS; i++) {
        ams.add(begin());
      }
      for (int i = 0; i < EVENTS; i++) {
        // one that drains goes by itself when nothing runs there any more
        nodes.removeIf(node -> !cluster.rm.getRMContext().getRMNodes().containsKey(node.getNodeId()));
        while (nodes.size() < 2) {
          addNode();
        }
        String what = operate();
        try {
          cluster.tickAndCheck();
        } catch (Throwable e) {
          throw new AssertionError("event " + i + ": " + what, e);
        }
      }
      assertTrue(cluster.model.snapshots == engines && cluster.model.containers.size() > 10,
          () -> cluster.model.snapshots + " " + cluster.model.containers.size());
    }
  }

  private MockAM begin() throws Exception {
    RMApp app = MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue(leaves.get(random.nextInt(2))).withUser("user" + random.nextInt(2)).withUnmanagedAM(false)
        .withKeepContainers(random.nextBoolean()).withMaxAppAttempts(1000).build());
    return launch(app);
  }

  /** Other applications ask, too: a heartbeat of the masters' node places one container. */
  private MockAM launch(RMApp app) throws Exception {
    RMAppAttempt attempt = app.getCurrentAppAttempt();
    for (int i = 0; i < 1000 && attempt.getAppAttemptState() != RMAppAttemptState.ALLOCATED; i++) {
      masters.nodeHeartbeat(true);
      cluster.tickAndCheck();
    }
    MockAM am = cluster.rm.sendAMLaunched(attempt.getAppAttemptId());
    cluster.rm.waitForState(attempt.getAppAttemptId(), RMAppAttemptState.LAUNCHED);
    am.registerAppAttempt();
    cluster.tickAndCheck();
    return am;
  }

  private void addNode() throws Exception {
    nodes.add(cluster.rm.registerNode("n" + nextNode++ + ":1234", 16 * 1024, 16));
  }

  private String operate() throws Exception {
    int kind = random.nextInt(100);
    if (kind < 30) {
      nodes.get(random.nextInt(nodes.size())).nodeHeartbeat(true);
      return "a heartbeat";
    }
    if (kind < 45) {
      ask(ams.get(random.nextInt(ams.size())));
      return "an ask";
    }
    if (kind < 55) {
      pull(ams.get(random.nextInt(ams.size())), Collections.emptyList());
      return "a look for containers";
    }
    if (kind < 70) {
      complete();
      return "an end";
    }
    if (kind < 76) {
      release();
      return "a release";
    }
    if (kind < 82) {
      blacklist(ams.get(random.nextInt(ams.size())));
      return "a blacklist";
    }
    if (kind < 90) {
      return changeNodes();
    }
    if (kind < 95) {
      move(ams.get(random.nextInt(ams.size())), leaves.get(random.nextInt(leaves.size())));
      return "a move";
    }
    if (kind < 98) {
      return changeQueues();
    }
    if (kind < 99 && random.nextInt(5) == 0) {
      engines++;
      if (random.nextBoolean()) {
        cluster.changeEngine();
        return "another engine";
      }
      cluster.failOver();
      return "a failover";
    }
    return restart(random.nextInt(ams.size()));
  }

  private void move(MockAM am, String queue) throws Exception {
    cluster.scheduler.moveApplication(am.getApplicationAttemptId().getApplicationId(), "root." + queue);
  }

  /** A leaf comes, becomes a parent, and goes. */
  private String changeQueues() throws Exception {
    if (!leaves.contains("c") && conf.get(QUEUES + "c.queues") == null) {
      conf.set(QUEUES + "queues", "a,b,c");
      conf.set(QUEUES + "a.capacity", "50");
      conf.set(QUEUES + "c.capacity", "10");
      conf.set(QUEUES + "c.state", "RUNNING");
      leaves.add("c");
      reinitialize();
      return "a new queue";
    }
    leaves.remove("c");
    for (MockAM am : ams) {
      if (cluster.scheduler.getApplicationAttempt(am.getApplicationAttemptId()).getQueue().getQueueName().equals("c")) {
        move(am, "a");
      }
    }
    conf.set(QUEUES + "c.state", "STOPPED");
    reinitialize();
    if (conf.get(QUEUES + "c.queues") == null && random.nextBoolean()) {
      conf.set(QUEUES + "c.queues", "x");
      conf.set(QUEUES + "c.x.capacity", "100");
      conf.set(QUEUES + "c.state", "RUNNING");
      reinitialize();
      return "a leaf that becomes a parent";
    }
    conf.unset(QUEUES + "c.queues");
    conf.set(QUEUES + "queues", "a,b");
    conf.set(QUEUES + "a.capacity", "60");
    conf.unset(QUEUES + "c.capacity");
    reinitialize();
    return "a queue that goes";
  }

  private void reinitialize() throws Exception {
    cluster.scheduler.reinitialize(conf, cluster.rm.getRMContext());
    cluster.scheduler.journal.queuesChanged();
  }

  /** An application ends and another one comes, or the master of one fails. */
  private String restart(int which) throws Exception {
    MockAM am = ams.get(which);
    ApplicationAttemptId attempt = am.getApplicationAttemptId();
    RMApp app = cluster.rm.getRMContext().getRMApps().get(attempt.getApplicationId());
    if (random.nextBoolean()) {
      cluster.rm.killApp(app.getApplicationId());
      cluster.rm.waitForState(app.getApplicationId(), RMAppState.KILLED);
      cluster.tickAndCheck();
      ams.set(which, begin());
      return "an application that is killed";
    }
    masters.nodeHeartbeat(attempt, 1, ContainerState.COMPLETE);
    cluster.rm.waitForState(attempt, RMAppAttemptState.FAILED);
    cluster.rm.waitForState(app.getApplicationId(), RMAppState.ACCEPTED);
    cluster.tickAndCheck();
    ams.set(which, launch(app));
    return "a master that fails";
  }

  private void ask(MockAM am) throws Exception {
    String[] hosts = random.nextBoolean() ? new String[] {"n" + random.nextInt(3), "n" + random.nextInt(nextNode)}
        : new String[0];
    List<ResourceRequest> asks =
        am.createReq(hosts, 1024 * (1 + random.nextInt(2)), 1 + random.nextInt(3), random.nextInt(5), -1);
    remember(am.allocate(asks, new ArrayList<>()));
  }

  private void pull(MockAM am, List<ContainerId> releases) throws Exception {
    remember(am.allocate(new ArrayList<>(), releases));
  }

  private void remember(AllocateResponse response) {
    pulled.addAll(response.getAllocatedContainers());
  }

  private void complete() throws Exception {
    if (pulled.isEmpty()) {
      return;
    }
    Container container = pulled.remove(random.nextInt(pulled.size()));
    List<MockNM> all = new ArrayList<>(nodes);
    all.add(masters);
    for (MockNM node : all) {
      if (node.getNodeId().equals(container.getNodeId())) {
        node.nodeHeartbeat(container.getId().getApplicationAttemptId(), container.getId().getContainerId(),
            ContainerState.RUNNING);
        cluster.tickAndCheck();
        node.nodeHeartbeat(container.getId().getApplicationAttemptId(), container.getId().getContainerId(),
            ContainerState.COMPLETE);
      }
    }
  }

  private void release() throws Exception {
    if (!pulled.isEmpty()) {
      Container container = pulled.remove(random.nextInt(pulled.size()));
      for (MockAM am : ams) {
        if (am.getApplicationAttemptId().equals(container.getId().getApplicationAttemptId())) {
          pull(am, Collections.singletonList(container.getId()));
        }
      }
    }
  }

  private void blacklist(MockAM am) throws Exception {
    List<String> name = Collections.singletonList("n" + random.nextInt(3));
    List<String> none = Collections.emptyList();
    remember(am.allocate(AllocateRequest.newInstance(0, 0, Collections.emptyList(), Collections.emptyList(),
        random.nextBoolean() ? ResourceBlacklistRequest.newInstance(name, none)
            : ResourceBlacklistRequest.newInstance(none, name))));
  }

  private String changeNodes() throws Exception {
    int which = random.nextInt(nodes.size());
    NodeId id = nodes.get(which).getNodeId();
    RMNode node = cluster.rm.getRMContext().getRMNodes().get(id);
    switch (random.nextInt(6)) {
      case 0:
        if (nodes.size() > 2) {
          nodes.remove(which).unRegisterNode();
          return "a node that goes";
        }
        addNode();
        return "a new node";
      case 1:
        if (nodes.size() < 6) {
          addNode();
        }
        return "a new node";
      case 2:
        return drain(which, node);
      case 3:
        Set<String> labels = random.nextBoolean() ? Collections.singleton("spare") : Collections.emptySet();
        cluster.rm.getRMContext().getNodeLabelManager().replaceLabelsOnNode(Collections.singletonMap(id, labels));
        cluster.scheduler.handle(new NodeLabelsUpdateSchedulerEvent(Collections.singletonMap(id, labels)));
        return "another label";
      default:
        cluster.scheduler.handle(new NodeResourceUpdateSchedulerEvent(node, ResourceOption.newInstance(
            Resources.createResource(1024 * (8 + random.nextInt(16)), 16), -1)));
        return "another size";
    }
  }

  private String drain(int which, RMNode node) throws Exception {
    boolean draining = node.getState() == NodeState.DECOMMISSIONING;
    RMNodeEvent event = new RMNodeDecommissioningEvent(node.getNodeID(), 3600);
    if (draining) {
      boolean back = random.nextBoolean() || nodes.size() < 3;
      event = new RMNodeEvent(node.getNodeID(), back ? RMNodeEventType.RECOMMISSION : RMNodeEventType.DECOMMISSION);
    }
    cluster.rm.getRMContext().getDispatcher().getEventHandler().handle(event);
    cluster.rm.drainEvents();
    if (event.getType() == RMNodeEventType.DECOMMISSION) {
      nodes.remove(which);
    }
    return "a node that drains, or no more";
  }
}

package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceOption;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.event.NodeResourceUpdateSchedulerEvent;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever happens to a cluster, an engine that only reads frames knows what the scheduler knows. The taps suffice. */
class RandomOperationsTest {
  private static final int OPERATIONS = 80;

  private Cluster cluster;
  private Random random;
  private final List<MockNM> nodes = new ArrayList<>();
  private final List<MockAM> ams = new ArrayList<>();
  private final List<Container> pulled = new ArrayList<>();
  private int nextNode;

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void theMirrorEqualsTheTruth(long seed) throws Exception {
    random = new Random(seed);
    try (Cluster made = new Cluster(Cluster.conf(), Cluster.settings(8192))) {
      cluster = made;
      for (int i = 0; i < 3; i++) {
        addNode();
      }
      for (String queue : Arrays.asList("a", "a", "b")) {
        ams.add(MockRM.launchAndRegisterAM(submit(queue), cluster.rm, nodes.get(0)));
        cluster.tickAndCheck();
      }
      for (int i = 0; i < OPERATIONS; i++) {
        operate();
        cluster.tickAndCheck();
      }
      MockAM last = ams.get(0);
      cluster.rm.killApp(last.getApplicationAttemptId().getApplicationId());
      cluster.rm.waitForState(last.getApplicationAttemptId().getApplicationId(), RMAppState.KILLED);
      cluster.tickAndCheck();
      assertTrue(cluster.model.snapshots == 1 && cluster.model.containers.size() > 10,
          () -> cluster.model.snapshots + " " + cluster.model.containers.size());
    }
  }

  private RMApp submit(String queue) throws Exception {
    return MockRMAppSubmitter.submit(cluster.rm, MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm)
        .withQueue(queue).withUser("user" + random.nextInt(2)).withUnmanagedAM(false).build());
  }

  private void addNode() throws Exception {
    nodes.add(cluster.rm.registerNode("n" + nextNode++ + ":1234", 16 * 1024, 16));
  }

  private void operate() throws Exception {
    switch (random.nextInt(9)) {
      case 0:
      case 1:
      case 2:
        nodes.get(random.nextInt(nodes.size())).nodeHeartbeat(true);
        break;
      case 3:
        ask(ams.get(random.nextInt(ams.size())));
        break;
      case 4:
        pull(ams.get(random.nextInt(ams.size())), Collections.emptyList());
        break;
      case 5:
        complete();
        break;
      case 6:
        release();
        break;
      case 7:
        blacklist(ams.get(random.nextInt(ams.size())));
        break;
      default:
        changeNodes();
    }
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
    for (MockNM node : nodes) {
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

  private void changeNodes() throws Exception {
    if (nodes.size() > 2 && random.nextBoolean()) {
      nodes.remove(nodes.size() - 1).unRegisterNode();
    } else if (random.nextBoolean()) {
      addNode();
    } else {
      RMNode node = cluster.rm.getRMContext().getRMNodes().get(nodes.get(1).getNodeId());
      cluster.scheduler.handle(new NodeResourceUpdateSchedulerEvent(node, ResourceOption.newInstance(
          Resources.createResource(1024 * (8 + random.nextInt(16)), 16), -1)));
    }
  }
}

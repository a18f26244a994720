// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.ConstraintText;
import io.treadle.shim.cluster.Submitter;
import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.hadoop.test.GenericTestUtils.LogCapturer;
import org.apache.hadoop.thirdparty.protobuf.ByteString;
import org.apache.hadoop.thirdparty.protobuf.LazyStringList;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeOpCode;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.records.impl.pb.SchedulingRequestPBImpl;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints.PlacementTargets;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.proto.YarnProtos.SchedulingRequestProto;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManagerService;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

/** Attributes of nodes, and what constrained requests are bound to. */
class ConstraintsTest {
  private static final String TAG = "hbase";

  private static Cluster cluster() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.set(YarnConfiguration.RM_PLACEMENT_CONSTRAINTS_HANDLER,
        YarnConfiguration.SCHEDULER_RM_PLACEMENT_CONSTRAINTS_HANDLER);
    return new Cluster(conf, Cluster.settings(1 << 20));
  }

  private static void attributes(Cluster cluster, String node, String... namesAndValues) throws Exception {
    Set<NodeAttribute> set = new HashSet<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      set.add(NodeAttribute.newInstance(namesAndValues[i], NodeAttributeType.STRING, namesAndValues[i + 1]));
    }
    cluster.rm.getRMContext().getNodeAttributesManager()
        .replaceNodeAttributes(null, Collections.singletonMap(node, set));
    cluster.rm.drainEvents();
  }

  private static MockAM launch(Cluster cluster, MockNM node) throws Exception {
    return MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm,
        MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm).withQueue("a").withUser("alice")
            .withUnmanagedAM(false).build()), cluster.rm, node);
  }

  private static void ask(MockAM am, int priority, PlacementConstraint constraint, String... tags) throws Exception {
    am.allocate(new ArrayList<>(), Collections.singletonList(SchedulingRequest.newInstance(priority,
        Priority.newInstance(priority), ExecutionTypeRequest.newInstance(), new TreeSet<>(Arrays.asList(tags)),
        ResourceSizing.newInstance(1, Resource.newInstance(64 * 1024, 1)), constraint)), new ArrayList<>());
  }

  @Test
  void attributesAreSentAsTheyComeAndGo() throws Exception {
    try (Cluster cluster = cluster()) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      attributes(cluster, "n1", "gpu", "A100", "os", "8");
      cluster.tickAndCheck();
      assertEquals("{rm.yarn.io/gpu=A100, rm.yarn.io/os=8}", cluster.model.attributes.get(0L).toString());
      attributes(cluster, "n1", "gpu", "H100");
      cluster.tickAndCheck();
      assertEquals("{rm.yarn.io/gpu=H100}", cluster.model.attributes.get(0L).toString());
      assertEquals(1, cluster.model.snapshots);
      cluster.mirror.snapshotNeeded();
      cluster.tickAndCheck();
      assertEquals("{rm.yarn.io/gpu=H100}", cluster.model.attributes.get(0L).toString());
      node.unRegisterNode();
      cluster.tickAndCheck();
      assertNull(cluster.model.attributes.get(0L));
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      attributes(cluster, "n1", "gpu", "H100", "os", "9");
      cluster.tickAndCheck();
      assertEquals("{rm.yarn.io/gpu=H100, rm.yarn.io/os=9}", cluster.model.attributes.get(1L).toString());
    }
  }

  @Test
  void aConstraintIsSentOnceInItsCanonicalForm() throws Exception {
    try (Cluster cluster = cluster()) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = launch(cluster, node);
      cluster.tick();
      ask(am, 5, PlacementConstraints.targetNodeAttribute(PlacementConstraints.NODE, NodeAttributeOpCode.EQ,
          PlacementTargets.nodeAttribute("gpu", "A100")).build(), "b", "a");
      ask(am, 6, PlacementConstraints.and(
          PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag("y", "x")),
          PlacementConstraints.cardinality(PlacementConstraints.RACK, 0, 3, TAG)).build(), TAG);
      cluster.tickAndCheck();
      String own = "{\"scope\":\"node\",\"min\":-1,\"max\":-1,\"op\":\"EQ\",\"targets\":[{\"type\":\"NODE_ATTRIBUTE\","
          + "\"key\":\"gpu\",\"values\":[\"A100\"]}]}";
      assertEquals(new TreeSet<>(Arrays.asList("{\"and\":[" + own + "]}", "{\"and\":[{\"and\":[{\"scope\":\"node\","
          + "\"min\":0,\"max\":0,\"op\":\"NO_OP\",\"targets\":[{\"type\":\"ALLOCATION_TAG\","
          + "\"key\":\"self\",\"values\":[\"x\","
          + "\"y\"]}]},{\"scope\":\"rack\",\"min\":0,\"max\":3,\"op\":\"NO_OP\","
          + "\"targets\":[{\"type\":\"ALLOCATION_TAG\","
          + "\"key\":\"self\",\"values\":[\"hbase\"]}]}]}]}")), new TreeSet<>(cluster.model.constraints.values()));
      assertTrue(cluster.model.allocationTags.containsValue(new TreeSet<>(Arrays.asList("a", "b"))));
      Map<String, String> before = new TreeMap<>(cluster.model.constraints);
      assertEquals(48, cluster.tick().get(0).length, "nothing is sent twice");
      cluster.mirror.snapshotNeeded();
      cluster.tickAndCheck();
      assertEquals(new TreeSet<>(before.values()), new TreeSet<>(cluster.model.constraints.values()));
    }
  }

  /** Whatever a request without a tag, or with several, is asked about, the manager logs that. */
  @Test
  void requestsWithoutExactlyOneTagLogNothing() throws Exception {
    try (Cluster cluster = cluster()) {
      MockAM am = launch(cluster, cluster.rm.registerNode("n1:1234", 16 * 1024, 16));
      PlacementConstraint own = PlacementConstraints.cardinality(PlacementConstraints.RACK, 0, 3, TAG).build();
      ask(am, 5, own);
      ask(am, 6, own, "a", "b");
      cluster.rm.drainEvents();
      LogCapturer log = LogCapturer.captureLogs(LoggerFactory.getLogger(PlacementConstraintManagerService.class));
      cluster.tickAndCheck();
      log.stopCapturing();
      assertEquals("", log.getOutput());
      assertEquals(2, cluster.model.constraints.size());
    }
  }

  /**
   * An application's requirement in its master's environment comes as a tag, with the application and in a snapshot.
   */
  @Test
  void whatAnEnvironmentRequiresComesAsTags() throws Exception {
    try (Cluster cluster = cluster()) {
      cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      cluster.tickAndCheck();
      Submitter.submit(cluster.rm, "a", 1024, Collections.singleton("etl"), "TREADLE_REQUIRE", "zone=A;rack!=/r9",
          "TREADLE_PREFER", "gpu=a100", "PATH", "/bin");
      cluster.tick();
      Set<String> expected = new TreeSet<>(
          Arrays.asList("etl", "treadle:prefer=gpu=a100", "treadle:require=zone=A;rack!=/r9"));
      assertEquals(expected, cluster.model.applications.get(0L).tags);
      cluster.mirror.snapshotNeeded();
      cluster.tick();
      assertEquals(expected, cluster.model.applications.get(0L).tags);
    }
  }

  @Test
  void aConstraintThatIsTooLongIsOpaque() throws Exception {
    try (Cluster cluster = cluster()) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = launch(cluster, node);
      String[] many = new String[100];
      for (int i = 0; i < many.length; i++) {
        many[i] = "tag" + i;
      }
      ask(am, 5, PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag(many))
          .build(), TAG);
      cluster.tickAndCheck();
      assertEquals("[opaque]", cluster.model.constraints.values().toString());
    }
  }

  private static PlacementConstraint notBeside(int tags) {
    return PlacementConstraints.targetNotIn(PlacementConstraints.NODE, PlacementTargets.allocationTag(
        IntStream.range(0, tags).mapToObj(i -> "tag-" + i).toArray(String[]::new))).build();
  }

  private static SchedulingRequest request(int id, PlacementConstraint constraint, String tag) {
    return SchedulingRequest.newInstance(id, Priority.newInstance(5), ExecutionTypeRequest.newInstance(),
        Collections.singleton(tag), ResourceSizing.newInstance(1, Resource.newInstance(1024, 1)), constraint);
  }

  @Test
  void aLargeRequestIsNotRead() throws Exception {
    try (Cluster cluster = cluster()) {
      SchedulingRequestProto proto = SchedulingRequestProto.parseFrom(
          ((SchedulingRequestPBImpl) request(1, notBeside(3000), TAG)).getProto().toByteArray());
      ConstraintText text = ConstraintText.of(cluster.rm.getRMContext(), ApplicationId.newInstance(1, 1),
          new SchedulingRequestPBImpl(proto));
      assertNull(text.text);
      assertEquals(proto.getSerializedSize(), text.bytes);
      LazyStringList values = (LazyStringList) proto.getPlacementConstraint().getSimpleConstraint()
          .getTargetExpressions(0).getTargetValuesList();
      assertTrue(values.getRaw(0) instanceof ByteString, "a value was converted");
    }
  }

  /** The conjunction with the request's own compares them, for each request. */
  @Test
  void aLargeConstraintOfTheApplicationIsNotRead() throws Exception {
    try (Cluster cluster = cluster()) {
      boolean[] registered = {false};
      Set<String> values = new HashSet<String>() {
        @Override
        public int size() {
          return 3000;
        }

        @Override
        public Iterator<String> iterator() {
          if (registered[0]) {
            throw new AssertionError("its values are read");
          }
          return super.iterator();
        }
      };
      ApplicationId id = ApplicationId.newInstance(1, 1);
      cluster.rm.getRMContext().getPlacementConstraintManager().registerApplication(id, Collections.singletonMap(
          Collections.singleton(TAG), new SingleConstraint(PlacementConstraints.NODE, 0, 0, new TargetExpression(
              TargetExpression.TargetType.ALLOCATION_TAG, "self", values)).build()));
      registered[0] = true;
      SchedulingRequestPBImpl asked = (SchedulingRequestPBImpl) request(1, notBeside(1), TAG);
      ConstraintText text = ConstraintText.of(cluster.rm.getRMContext(), id,
          new SchedulingRequestPBImpl(asked.getProto()));
      assertNull(text.text);
      assertEquals(Collections.singleton(TAG), text.tags);
    }
  }

  /** Each takes a share of what a user may change at once, although all have one text. */
  @Test
  void largeConstraintsComeInTurns() throws Exception {
    try (Cluster cluster = cluster()) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = launch(cluster, node);
      cluster.tick();
      PlacementConstraint large = notBeside(3000);
      am.allocate(new ArrayList<>(), IntStream.range(0, 40).mapToObj(id -> request(id, large, TAG))
          .collect(Collectors.toList()), new ArrayList<>());
      int first = new FrameReader(cluster.tick().get(0)).table(Section.CONSTRAINTS).rows();
      assertTrue(first > 0 && first <= 20, "" + first);
      for (int i = 0; i < 20; i++) {
        cluster.tick();
      }
      cluster.check();
      assertEquals(40, cluster.model.constraints.size());
    }
  }

  /** A container's start and end cost a row each, and its end one of the node. */
  @Test
  void aStepIsARowOfItsOwn() throws Exception {
    try (Cluster cluster = cluster()) {
      MockNM node = cluster.rm.registerNode("n1:1234", 16 * 1024, 16);
      MockAM am = launch(cluster, node);
      am.allocate(am.createReq(new String[] {"n1"}, 1024, 5, 4, -1), new ArrayList<ContainerId>());
      node.nodeHeartbeat(true);
      cluster.rm.drainEvents();
      am.doHeartbeat();
      cluster.tickAndCheck();
      node.nodeHeartbeat(am.getApplicationAttemptId(), 2, ContainerState.RUNNING);
      cluster.rm.drainEvents();
      List<byte[]> frames = cluster.tick();
      cluster.check();
      FrameReader frame = new FrameReader(frames.get(0));
      assertEquals(1, frame.table(Section.CONTAINERS).rows());
      node.nodeHeartbeat(am.getApplicationAttemptId(), 2, ContainerState.COMPLETE);
      frames = cluster.tick();
      cluster.check();
      frame = new FrameReader(frames.get(0));
      assertEquals(1, frame.table(Section.CONTAINERS).rows());
      assertEquals(1, frame.table(Section.NODES).rows());
      assertTrue(cluster.model.containers.get(cluster.model.containers.size() - 1).contains("event=3 exit=0"),
          cluster.model.containers.toString());
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.util.resource.DominantResourceCalculator;
import org.apache.hadoop.yarn.util.resource.ResourceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A third resource type crosses the wire like the first two. */
class ResourceTypesTest {
  private static final String GPU = "yarn.io/gpu";

  @AfterEach
  void forgetTypes() {
    ResourceUtils.resetResourceTypes();
  }

  private static Resource amounts(int memoryMb, int vcores, int gpus) {
    Resource resource = Resource.newInstance(memoryMb, vcores);
    resource.setResourceValue(GPU, gpus);
    return resource;
  }

  @Test
  void aThirdTypeIsInEachRow() throws Exception {
    YarnConfiguration conf = Cluster.conf();
    conf.set(YarnConfiguration.RESOURCE_TYPES, GPU);
    conf.set("yarn.scheduler.capacity.resource-calculator", DominantResourceCalculator.class.getName());
    try (Cluster cluster = new Cluster(conf, Cluster.settings(1 << 20))) {
      MockNM node = cluster.rm.registerNode("n1:1234", amounts(16 * 1024, 16, 4));
      cluster.tickAndCheck();
      assertEquals(Arrays.asList("memory-mb 1", "vcores 1", GPU + " 1"), cluster.model.resourceTypes);
      assertTrue(cluster.model.nodes.get(0L).endsWith("total=[16384, 16, 4] free=[16384, 16, 4]"),
          cluster.model.nodes.toString());
      MockAM am = MockRM.launchAndRegisterAM(MockRMAppSubmitter.submit(cluster.rm,
          MockRMAppSubmissionData.Builder.createWithMemory(1024, cluster.rm).withQueue("a").withUser("alice")
              .withUnmanagedAM(false).build()), cluster.rm, node);
      am.allocate(Collections.singletonList(ResourceRequest.newBuilder().priority(Priority.newInstance(3))
          .resourceName("*").capability(amounts(2048, 2, 1)).numContainers(2).build()), new ArrayList<>());
      cluster.tickAndCheck();
      EngineModel.Application app = cluster.model.applications.get(0L);
      assertTrue(app.requests.toString().contains("[2048, 2, 1]"), app.requests.toString());
      node.nodeHeartbeat(true);
      cluster.tickAndCheck();
      assertEquals("2 [3072, 3, 1]", app.usage);
      assertTrue(cluster.model.nodes.get(0L).endsWith("free=[13312, 13, 3]"), cluster.model.nodes.toString());
      assertEquals(3, app.headroom.length);
      assertEquals(2, app.headroom[2], "90 % of 4 GPUs are 3, one is used");
      assertArrayEquals(new long[] {0, 0}, new long[] {Math.min(0, app.headroom[0]), Math.min(0, app.headroom[1])});
      assertTrue(cluster.model.limits.get("root.a/").startsWith("[9830, 9, 2] [14745, 14, 3] [3072, 3, 1]"),
          cluster.model.limits.toString());
    }
  }
}

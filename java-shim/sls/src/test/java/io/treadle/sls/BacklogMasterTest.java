// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.sls.nodemanager.NodeInfo;
import org.junit.jupiter.api.Test;

class BacklogMasterTest {
  private static List<RMNode> nodes(int count) {
    List<RMNode> nodes = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      nodes.add(NodeInfo.newNodeInfo("rack" + i % 2, "127.1.0." + i, Resource.newInstance(1024, 1)));
    }
    return nodes;
  }

  @Test
  void withoutPreferencesItAsksAnywhere() {
    assertEquals(Collections.singletonMap(ResourceRequest.ANY, 7),
        BacklogMaster.spread(7, 0, nodes(4), new Random(1)));
  }

  @Test
  void preferredNodesAndTheirRacksAddUpToAllThatIsAskedFor() {
    Map<String, Integer> asks = BacklogMaster.spread(10, 3, nodes(4), new Random(1));
    assertEquals(10, asks.get(ResourceRequest.ANY));
    assertEquals(10, sum(asks, "127."));
    assertEquals(10, sum(asks, "/rack"));
    assertEquals(3, asks.keySet().stream().filter(name -> name.startsWith("127.")).count());
    assertEquals(asks, BacklogMaster.spread(10, 3, nodes(4), new Random(1)));
  }

  @Test
  void itPrefersNoMoreNodesThanThereAreNorThanItAsksFor() {
    assertEquals(2, sum(BacklogMaster.spread(2, 9, nodes(4), new Random(1)), "127."));
    assertEquals(20, sum(BacklogMaster.spread(20, 9, nodes(4), new Random(1)), "127."));
  }

  private static int sum(Map<String, Integer> asks, String prefix) {
    return asks.entrySet().stream().filter(each -> each.getKey().startsWith(prefix))
        .mapToInt(Map.Entry::getValue).sum();
  }
}

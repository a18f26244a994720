// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.junit.jupiter.api.Test;
import org.mockito.Mockito;

/** Requirements mean in Java what they mean in Python. */
class GoldenExpressionsTest {
  @Test
  void everyVerdictIsTheSame() throws Exception {
    JsonNode golden = new ObjectMapper().readTree(Paths.get("../../tests/golden/expressions.json").toFile());
    List<SchedulerNode> nodes = new ArrayList<>();
    golden.get("nodes").forEach(node -> nodes.add(node(node)));
    assertTrue(golden.get("cases").size() >= 200);
    List<String> wrong = new ArrayList<>();
    for (JsonNode one : golden.get("cases")) {
      Requirement read = Requirement.of(Collections.singletonList(one.get("text").asText()));
      String expected = one.has("verdict") ? one.get("verdict").asText() : "cannot be read";
      String found = read.error != null ? "cannot be read"
          : String.valueOf(read.admits(nodes.get(one.path("node").asInt())));
      if (!expected.equals(found) && wrong.size() < 5) {
        wrong.add(one + " in Java: " + found);
      }
    }
    assertEquals(Collections.emptyList(), wrong);
  }

  private static SchedulerNode node(JsonNode facts) {
    SchedulerNode node = Mockito.mock(SchedulerNode.class);
    Set<NodeAttribute> attributes = new HashSet<>();
    facts.get("attributes").fields().forEachRemaining(entry -> {
      String[] name = entry.getKey().split("/");
      attributes.add(NodeAttribute.newInstance(name[0], name[1], NodeAttributeType.STRING, entry.getValue().asText()));
    });
    Mockito.when(node.getNodeAttributes()).thenReturn(attributes);
    Mockito.when(node.getRackName()).thenReturn(facts.get("rack").asText());
    Mockito.when(node.getNodeName()).thenReturn(facts.get("host").asText());
    Mockito.when(node.getPartition()).thenReturn(facts.get("partition").asText());
    List<ResourceInformation> totals = new ArrayList<>();
    facts.get("totals").fields().forEachRemaining(entry ->
        totals.add(ResourceInformation.newInstance(entry.getKey(), "", entry.getValue().asLong())));
    Resource total = Mockito.mock(Resource.class);
    Mockito.when(total.getResources()).thenReturn(totals.toArray(new ResourceInformation[0]));
    Mockito.when(node.getTotalResource()).thenReturn(total);
    return node;
  }

  @Test
  void textsOfAnyKindAreReadOrRefused() {
    String alphabet = "aZ9_./- =!<>|;&\u00e4\n";
    Random random = new Random(7);
    int read = 0;
    for (int i = 0; i < 20_000; i++) {
      StringBuilder text = new StringBuilder();
      for (int length = random.nextInt(12); length > 0; length--) {
        text.append(alphabet.charAt(random.nextInt(alphabet.length())));
      }
      Requirement requirement = Requirement.of(Collections.singletonList(text.toString()));
      read += requirement.error == null ? 1 : 0;
      assertFalse(requirement.isNone());
    }
    assertTrue(read > 20, read + " could be read");
  }
}

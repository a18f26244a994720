// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.cluster.ClusterFixture;
import io.treadle.shim.ConstraintText;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ExecutionTypeRequest;
import org.apache.hadoop.yarn.api.records.NodeAttribute;
import org.apache.hadoop.yarn.api.records.NodeAttributeOpCode;
import org.apache.hadoop.yarn.api.records.NodeAttributeType;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceSizing;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.AbstractConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.SingleConstraint;
import org.apache.hadoop.yarn.api.resource.PlacementConstraint.TargetExpression;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints;
import org.apache.hadoop.yarn.api.resource.PlacementConstraints.PlacementTargets;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.AllocationTagsManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.constraint.PlacementConstraintsUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * What a constraint says in its canonical form is what the RM judges it by, on a real RM's nodes. The verdicts on the
 * first trees are a golden file, which the engine is held to, too.
 */
class ConstraintVerdictsTest {
  private static final Path GOLDEN = Paths.get("../../tests/golden/constraints.json");
  private static final int TREES = 10_000;
  private static final int IN_GOLDEN = 400;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String[] KEYS = {"zone", "rm.yarn.io/zone", "nm.yarn.io/os", "os", "x.org/word"};
  private static final String[] VALUES = {"a", "A", "1.8", "1.80", "b"};
  private static final String[] TAGS = {"hbase", "spark", "etl"};

  private final ApplicationId app = ApplicationId.newInstance(7, 1);
  private final List<FiCaSchedulerNode> nodes = new ArrayList<>();
  private ClusterFixture cluster;
  private AllocationTagsManager tags;

  @BeforeEach
  void start() throws Exception {
    cluster = ClusterFixture.cluster().start();
    tags = cluster.rm().getRMContext().getAllocationTagsManager();
    Random random = new Random(11);
    for (int i = 0; i < 5; i++) {
      MockNM made = cluster.node("n" + i, 8192, 8);
      FiCaSchedulerNode node = cluster.schedulerNode(made);
      Set<NodeAttribute> attributes = new HashSet<>();
      for (String key : new String[] {"rm.yarn.io/zone", "rm.yarn.io/os", "nm.yarn.io/os", "x.org/word"}) {
        if (random.nextInt(3) > 0) {
          String[] name = key.split("/");
          attributes.add(NodeAttribute.newInstance(
              name[0], name[1], NodeAttributeType.STRING, VALUES[random.nextInt(VALUES.length)]));
        }
      }
      node.updateNodeAttributes(attributes);
      for (String tag : TAGS) {
        for (int count = random.nextInt(3); count > 0; count--) {
          tags.addTags(node.getNodeID(), app, Collections.singleton(tag));
        }
      }
      nodes.add(node);
    }
  }

  @AfterEach
  void stop() {
    cluster.close();
  }

  private PlacementConstraintManager manager() {
    return cluster.rm().getRMContext().getPlacementConstraintManager();
  }

  private String verdict(PlacementConstraint constraint, FiCaSchedulerNode node) {
    try {
      SchedulingRequest request = SchedulingRequest.newInstance(1, Priority.newInstance(1),
          ExecutionTypeRequest.newInstance(), Collections.emptySet(),
          ResourceSizing.newInstance(1, Resource.newInstance(1024, 1)), constraint);
      return String.valueOf(PlacementConstraintsUtil.canSatisfyConstraints(app, request, node, manager(), tags));
    } catch (Exception e) {
      return "throws";
    }
  }

  private List<String> verdicts(PlacementConstraint constraint) {
    List<String> found = new ArrayList<>();
    nodes.forEach(node -> found.add(verdict(constraint, node)));
    return found;
  }

  @Test
  void theCanonicalFormIsJudgedAsTheConstraintIs() throws Exception {
    Random random = new Random(23);
    Map<String, Integer> seen = new TreeMap<>();
    ArrayNode cases = JSON.createArrayNode();
    for (int i = 0; i < TREES; i++) {
      PlacementConstraint constraint = tree(random, 0).build();
      String text =
          ConstraintText.canonical(manager().getMultilevelConstraint(app, Collections.emptySet(), constraint));
      if (text == null) {
        seen.merge("opaque", 1, Integer::sum);
        continue;
      }
      List<String> expected = verdicts(constraint);
      assertEquals(expected, verdicts(read(JSON.readTree(text)).build()), text);
      expected.forEach(verdict -> seen.merge(verdict, 1, Integer::sum));
      if (cases.size() < IN_GOLDEN) {
        ObjectNode one = cases.addObject();
        one.put("text", text);
        expected.forEach(one.withArray("verdicts")::add);
      }
    }
    for (String kind : Arrays.asList("true", "false", "throws", "opaque")) {
      assertTrue(seen.getOrDefault(kind, 0) > TREES / 100, seen.toString());
    }
    ObjectNode golden = golden(cases);
    if (System.getenv("TREADLE_GOLDEN_WRITE") != null) {
      Files.write(GOLDEN, JSON.writerWithDefaultPrettyPrinter().writeValueAsBytes(golden));
    }
    assertEquals(JSON.readTree(GOLDEN.toFile()), JSON.readTree(JSON.writeValueAsBytes(golden)),
        "write it anew: TREADLE_GOLDEN_WRITE=1");
  }

  private ObjectNode golden(ArrayNode cases) {
    ObjectNode golden = JSON.createObjectNode();
    for (FiCaSchedulerNode node : nodes) {
      ObjectNode facts = golden.withArray("nodes").addObject();
      facts.put("name", node.getNodeName());
      facts.put("rack", node.getRackName());
      Map<String, String> attributes = new TreeMap<>();
      node.getNodeAttributes().forEach(one -> attributes.put(
          one.getAttributeKey().getAttributePrefix() + "/" + one.getAttributeKey().getAttributeName(),
          one.getAttributeValue()));
      facts.set("attributes", JSON.valueToTree(attributes));
      Map<String, Long> counts = tags.getAllocationTagsWithCount(node.getNodeID());
      facts.set("tags", JSON.valueToTree(counts == null ? new HashMap<>() : new TreeMap<>(counts)));
    }
    golden.set("cases", cases);
    return golden;
  }

  private static AbstractConstraint tree(Random random, int depth) {
    int kind = random.nextInt(depth > 2 ? 6 : 9);
    if (kind > 5) {
      AbstractConstraint[] children = new AbstractConstraint[random.nextInt(3) + (random.nextInt(9) == 0 ? 0 : 1)];
      for (int i = 0; i < children.length; i++) {
        children[i] = tree(random, depth + 1);
      }
      return kind == 6 ? PlacementConstraints.or(children) : PlacementConstraints.and(children);
    }
    String scope = random.nextInt(3) == 0 ? PlacementConstraints.RACK : PlacementConstraints.NODE;
    String key = KEYS[random.nextInt(KEYS.length)];
    switch (kind) {
      case 0:
      case 1:
        return PlacementConstraints.targetNodeAttribute(PlacementConstraints.NODE,
            random.nextBoolean() ? NodeAttributeOpCode.EQ : NodeAttributeOpCode.NE,
            random.nextInt(12) == 0 ? PlacementTargets.nodeAttribute(key)
                : PlacementTargets.nodeAttribute(key, VALUES[random.nextInt(VALUES.length)]));
      case 2:
        return PlacementConstraints.targetIn(scope, PlacementTargets.allocationTag(some(random)));
      case 3:
        return PlacementConstraints.targetNotIn(scope, PlacementTargets.allocationTag(some(random)));
      case 4:
        int least = random.nextInt(2);
        return PlacementConstraints.cardinality(scope, least, least + random.nextInt(3), some(random));
      default:
        return random.nextInt(6) == 0
            ? PlacementConstraints.delayedOr(PlacementConstraints.timedClockConstraint(
                PlacementConstraints.targetIn(scope, PlacementTargets.allocationTag("etl")), 10, TimeUnit.SECONDS))
            : PlacementConstraints.targetCardinality(scope, 0, 1 + random.nextInt(4),
                PlacementTargets.allocationTag(some(random)));
    }
  }

  private static String[] some(Random random) {
    Set<String> chosen = new LinkedHashSet<>();
    for (int left = 1 + random.nextInt(2); left > 0; left--) {
      chosen.add(TAGS[random.nextInt(TAGS.length)]);
    }
    return chosen.toArray(new String[0]);
  }

  /** The constraint that a canonical form says. */
  private static AbstractConstraint read(JsonNode node) {
    if (node.has("and") || node.has("or")) {
      List<AbstractConstraint> children = new ArrayList<>();
      node.elements().next().forEach(child -> children.add(read(child)));
      AbstractConstraint[] all = children.toArray(new AbstractConstraint[0]);
      return node.has("and") ? PlacementConstraints.and(all) : PlacementConstraints.or(all);
    }
    Set<TargetExpression> targets = new LinkedHashSet<>();
    for (JsonNode target : node.get("targets")) {
      Set<String> values = new LinkedHashSet<>();
      target.get("values").forEach(value -> values.add(value.asText()));
      targets.add(new TargetExpression(TargetExpression.TargetType.valueOf(target.get("type").asText()),
          target.get("key").isNull() ? null : target.get("key").asText(), values));
    }
    return new SingleConstraint(node.get("scope").asText(), node.get("min").asInt(), node.get("max").asInt(),
        NodeAttributeOpCode.valueOf(node.get("op").asText()), targets);
  }
}

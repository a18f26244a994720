// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.plans.VertexOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.tez.dag.api.EdgeProperty.DataMovementType;
import org.apache.tez.dag.app.dag.Vertex;
import org.apache.tez.dag.app.dag.impl.DAGSchedulerNaturalOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class VertexOrderTest {
  private final FakeDag fake = FakeDag.diamond();
  private final DagDescription description = DagDescription.of(fake.dag);

  @Test
  void naturalOrderIsTezsOwn() {
    VertexOrder natural = VertexOrder.natural(description);
    DAGSchedulerNaturalOrder tez = new DAGSchedulerNaturalOrder(fake.dag, fake);
    for (Vertex vertex : fake.dag.getVertices().values()) {
      int id = vertex.getVertexId().getId();
      assertEquals(tez.getPriorityLowLimit(fake.dag, vertex), natural.low(id));
      assertEquals(tez.getPriorityHighLimit(fake.dag, vertex), natural.high(id));
    }
    assertFalse(natural.isPlanned());
  }

  @Test
  void aPlannedVertexComesBeforeAllThatThePlanHasBehindIt() {
    int[] plan = {1, 2, 0, 3};
    VertexOrder planned = VertexOrder.planned(description, plan);
    for (int place = 1; place < plan.length; place++) {
      assertTrue(planned.low(plan[place - 1]) < planned.high(plan[place]));
    }
    assertTrue(planned.isPlanned());
  }

  @Test
  void whoKnowsTheNumberOfVerticesFindsTheVertexOfAPriority() {
    VertexOrder planned = VertexOrder.planned(description, new int[] {1, 2, 0, 3});
    Set<Integer> priorities = new HashSet<>();
    for (int vertex = 0; vertex < 4; vertex++) {
      for (int priority = planned.high(vertex); priority <= planned.low(vertex); priority++) {
        assertTrue(priorities.add(priority));
        assertEquals(vertex, (priority + 2) / 3 % 4);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "0 1 2", "0 1 2 3 3", "0 1 2 2", "0 1 2 4", "0 1 2 -1", "2 1 0 3", "3 1 2 0", "1 2 3 0"})
  void whatIsNoOrderOfTheDagIsRefused(String text) {
    int[] plan = text.isEmpty() ? new int[0]
        : java.util.Arrays.stream(text.split(" ")).mapToInt(Integer::parseInt).toArray();
    assertThrows(IllegalArgumentException.class, () -> VertexOrder.planned(description, plan));
  }

  @Test
  void whateverIsReplannedParentsComeFirstAndWhatWasAskedForStays() {
    Random random = new Random(5);
    int moved = 0;
    for (int trial = 0; trial < 100; trial++) {
      int number = 2 + random.nextInt(6);
      FakeDag each = new FakeDag();
      for (int i = 0; i < number; i++) {
        each.vertex("v" + i, 1, 0);
      }
      List<Vertex> vertices = DagDescription.vertices(each.dag);
      for (int child = 1; child < number; child++) {
        for (int parent = 0; parent < child; parent++) {
          if (random.nextInt(4) == 0) {
            each.edge(vertices.get(parent), vertices.get(child), DataMovementType.SCATTER_GATHER);
          }
        }
      }
      DagDescription dag = DagDescription.of(each.dag);
      VertexOrder before = VertexOrder.planned(dag, order(dag, random));
      Set<Integer> asked = new HashSet<>(dag.ids());
      asked.removeIf(vertex -> random.nextInt(3) > 0);
      VertexOrder after;
      try {
        after = before.replanned(dag, order(dag, random), asked);
      } catch (IllegalArgumentException impossible) {
        continue;
      }
      moved += after == before ? 0 : 1;
      Set<Integer> low = new HashSet<>();
      for (int vertex : dag.ids()) {
        assertTrue(low.add(after.low(vertex)));
        assertEquals(vertex, after.low(vertex) / 3 % number);
        for (int parent : dag.parents(vertex)) {
          assertTrue(after.low(parent) < after.high(vertex));
        }
        if (asked.contains(vertex)) {
          assertEquals(before.low(vertex), after.low(vertex));
        }
      }
    }
    assertTrue(moved > 30, "that many have room to move: " + moved);
  }

  /** Any order of a DAG with parents first. */
  private static int[] order(DagDescription dag, Random random) {
    List<Integer> waiting = new ArrayList<>(dag.ids());
    Collections.shuffle(waiting, random);
    List<Integer> found = new ArrayList<>();
    while (!waiting.isEmpty()) {
      for (Integer vertex : new ArrayList<>(waiting)) {
        boolean ready = true;
        for (int parent : dag.parents(vertex)) {
          ready &= found.contains(parent);
        }
        if (ready) {
          found.add(vertex);
          waiting.remove(vertex);
        }
      }
    }
    return found.stream().mapToInt(Integer::intValue).toArray();
  }
}

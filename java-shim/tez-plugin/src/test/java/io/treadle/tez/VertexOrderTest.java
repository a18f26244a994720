package io.treadle.tez;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
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
}

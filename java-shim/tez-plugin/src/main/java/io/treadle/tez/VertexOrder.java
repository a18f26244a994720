package io.treadle.tez;

import java.util.HashMap;
import java.util.Map;

/**
 * The order of a DAG's vertices as request priorities. As in Tez each vertex has three of its own, of which the lowest
 * number is for tasks that are asked for again: {@code low = 3 ((place + 1) N + id)} and two below. Natural order takes
 * for the place a vertex's depth, a planned one its place in the plan, so that who decodes Tez's priorities finds the
 * vertex's id either way.
 */
final class VertexOrder {
  private final Map<Integer, Integer> low = new HashMap<>();
  private final boolean planned;

  private VertexOrder(boolean planned) {
    this.planned = planned;
  }

  /** Tez's own order. */
  static VertexOrder natural(DagDescription dag) {
    VertexOrder order = new VertexOrder(false);
    for (int vertex : dag.ids()) {
      order.put(dag, vertex, dag.depth(vertex));
    }
    return order;
  }

  /**
   * The order of a plan.
   *
   * @param vertices the ids of all vertices, the one to be served first in front
   * @throws IllegalArgumentException if these are not all vertices once, each after those that it waits for: Tez kills
   *     running tasks that come before tasks that they wait for
   */
  static VertexOrder planned(DagDescription dag, int[] vertices) {
    if (vertices.length != dag.vertices()) {
      throw new IllegalArgumentException(vertices.length + " vertices, the DAG has " + dag.vertices());
    }
    VertexOrder order = new VertexOrder(true);
    for (int place = 0; place < vertices.length; place++) {
      int vertex = vertices[place];
      if (!dag.has(vertex) || order.low.containsKey(vertex)) {
        throw new IllegalArgumentException("vertex " + vertex + " is not in the DAG, or twice in the plan");
      }
      for (int parent : dag.parents(vertex)) {
        if (!order.low.containsKey(parent)) {
          throw new IllegalArgumentException("vertex " + vertex + " comes before vertex " + parent + ", its parent");
        }
      }
      order.put(dag, vertex, place);
    }
    return order;
  }

  private void put(DagDescription dag, int vertex, int place) {
    int number = dag.vertices();
    low.put(vertex, Math.toIntExact(3L * ((place + 1L) * number + vertex)));
  }

  /** The largest of a vertex's priorities. */
  int low(int vertex) {
    return low.get(vertex);
  }

  /** The smallest of a vertex's priorities. */
  int high(int vertex) {
    return low(vertex) - 2;
  }

  /** The vertices' largest priorities by their ids. */
  @Override
  public String toString() {
    return low.toString();
  }

  /** Whether it is the order of a plan. */
  boolean isPlanned() {
    return planned;
  }
}

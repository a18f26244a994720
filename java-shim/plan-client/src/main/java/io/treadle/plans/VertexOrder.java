// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The order of a DAG's vertices as request priorities. As in Tez each vertex has three of its own, of which the lowest
 * number is for tasks that are asked for again: {@code low = 3 ((place + 1) N + id)} and two below. Natural order takes
 * for the place a vertex's depth, a planned one its place in the plan, so that who decodes Tez's priorities finds the
 * vertex's id either way.
 */
public final class VertexOrder {
  /** The order of a DAG of more vertices stays: finding another one takes their number squared. */
  public static final int REPLANNED_MAX = 1_000;

  private final Map<Integer, Integer> low = new HashMap<>();
  private final boolean planned;

  private VertexOrder(boolean planned) {
    this.planned = planned;
  }

  /** Tez's own order. */
  public static VertexOrder natural(Vertices dag) {
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
  public static VertexOrder planned(Vertices dag, int[] vertices) {
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

  /**
   * Returns this order with the vertices without requested tasks rearranged. They share their previous places, so that
   * no priority ever means two vertices, and no vertex has two.
   *
   * @param vertices the new order of all vertices
   * @param asked the ids of vertices with requested tasks: they keep their places
   * @throws IllegalArgumentException if it is not an order of all vertices, or parents cannot stay before their
   *     children
   */
  public VertexOrder replanned(Vertices dag, int[] vertices, Set<Integer> asked) {
    planned(dag, vertices);
    if (dag.vertices() > REPLANNED_MAX) {
      throw new IllegalArgumentException("more than " + REPLANNED_MAX + " vertices");
    }
    VertexOrder order = new VertexOrder(true);
    List<Integer> waiting = new ArrayList<>();
    for (int vertex : vertices) {
      if (asked.contains(vertex)) {
        order.put(dag, vertex, place(dag, vertex));
      } else {
        waiting.add(vertex);
      }
    }
    int[] places = waiting.stream().mapToInt(vertex -> place(dag, vertex)).sorted().toArray();
    for (int place : places) {
      int next = order.first(dag, waiting, place);
      waiting.remove((Integer) next);
      order.put(dag, next, place);
    }
    return order.low.equals(low) ? this : order;
  }

  /** The first vertex whose parents all come before a place, and whose children, as far as they have one, after it. */
  private int first(Vertices dag, List<Integer> waiting, int place) {
    for (int vertex : waiting) {
      boolean may = true;
      for (int parent : dag.parents(vertex)) {
        may &= low.containsKey(parent) && place(dag, parent) < place;
      }
      for (int child : dag.children(vertex)) {
        may &= !low.containsKey(child) || place(dag, child) > place;
      }
      if (may) {
        return vertex;
      }
    }
    throw new IllegalArgumentException("no vertex can have place " + place + " with its parents before it");
  }

  private int place(Vertices dag, int vertex) {
    return (low(vertex) / 3 - vertex) / dag.vertices() - 1;
  }

  private void put(Vertices dag, int vertex, int place) {
    low.put(vertex, DagBodies.low(place, dag.vertices(), vertex));
  }

  /** The largest of a vertex's priorities. */
  public int low(int vertex) {
    return low.get(vertex);
  }

  /** The smallest of a vertex's priorities. */
  public int high(int vertex) {
    return low(vertex) - 2;
  }

  /** The vertices' largest priorities by their ids. */
  @Override
  public String toString() {
    return low.toString();
  }

  /** Whether it is the order of a plan. */
  public boolean isPlanned() {
    return planned;
  }
}

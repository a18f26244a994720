// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.util.List;

/** The vertices of a DAG, or the stages of a job, by their ids, and who waits for whom. */
public interface Vertices {
  /** How many vertices it has. */
  int vertices();

  /** The vertices' ids, ascending. */
  List<Integer> ids();

  /** Whether it has a vertex of an id. */
  boolean has(int vertex);

  /** The longest distance of a vertex from a root. */
  int depth(int vertex);

  /** The ids of the vertices that a vertex waits for. */
  Iterable<Integer> parents(int vertex);

  /** The ids of the vertices that wait for a vertex. */
  List<Integer> children(int vertex);
}

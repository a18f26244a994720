// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import io.treadle.plans.Vertices;
import java.util.ArrayList;
import java.util.List;

/** The stages of a job of a {@link Script} as vertices: a stage's id is its place in the job. */
final class ScriptedStages implements Vertices {
  private final List<List<Integer>> parents = new ArrayList<>();
  private final List<List<Integer>> children = new ArrayList<>();
  private final List<Integer> ids = new ArrayList<>();
  private final int[] depths;

  ScriptedStages(List<Script.Stage> stages) {
    depths = new int[stages.size()];
    for (int i = 0; i < depths.length; i++) {
      ids.add(i);
      parents.add(new ArrayList<>());
      children.add(new ArrayList<>());
      for (int before : stages.get(i).after) { // all of which come before it in the script
        parents.get(i).add(before);
        children.get(before).add(i);
        depths[i] = Math.max(depths[i], depths[before] + 1);
      }
    }
  }

  @Override
  public int vertices() {
    return depths.length;
  }

  @Override
  public List<Integer> ids() {
    return ids;
  }

  @Override
  public boolean has(int vertex) {
    return vertex >= 0 && vertex < depths.length;
  }

  @Override
  public int depth(int vertex) {
    return depths[vertex];
  }

  @Override
  public Iterable<Integer> parents(int vertex) {
    return parents.get(vertex);
  }

  @Override
  public List<Integer> children(int vertex) {
    return children.get(vertex);
  }
}

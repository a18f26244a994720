// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.DagBodies;
import io.treadle.plans.Texts;
import io.treadle.plans.Vertices;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceInformation;
import org.apache.tez.dag.api.EdgeProperty.DataMovementType;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.Vertex;
import org.apache.tez.dag.app.dag.impl.Edge;

/** A DAG as a planner needs it: vertices with their widths and asks, and who waits for whom. */
final class DagDescription implements Vertices {
  /** One vertex. */
  private static final class Stage {
    private final int id;
    private final String name;
    private final int tasks;
    private final int depth;
    private final Map<String, Long> demand = new TreeMap<>();
    /** By the parent's id: whether task i waits for the parent's task i alone. */
    private final Map<Integer, Boolean> parents = new TreeMap<>();
    private final List<Integer> children = new ArrayList<>();

    Stage(Vertex vertex) {
      id = vertex.getVertexId().getId();
      name = vertex.getName();
      tasks = vertex.getTotalTasks();
      depth = vertex.getDistanceFromRoot();
    }
  }

  private final int dag;
  private final String name;
  private final Map<Integer, Stage> stages = new LinkedHashMap<>();

  private DagDescription(int dag, String name) {
    this.dag = dag;
    this.name = name;
  }

  /** A DAG's vertices, in the order of their ids' numbers; the ids themselves compare equal (Tez 0.10.5). */
  static List<Vertex> vertices(DAG dag) {
    List<Vertex> vertices = new ArrayList<>(dag.getVertices().values());
    vertices.sort(Comparator.comparingInt(vertex -> vertex.getVertexId().getId()));
    return vertices;
  }

  /** Reads a DAG whose vertices have been made; to be called where Tez calls its DAGScheduler. */
  static DagDescription of(DAG dag) {
    DagDescription description = new DagDescription(dag.getID().getId(), dag.getName());
    for (Vertex vertex : vertices(dag)) {
      Stage stage = new Stage(vertex);
      Resource asked = vertex.getTaskResource();
      for (ResourceInformation type : asked.getResources()) {
        stage.demand.put(type.getName(), type.getValue());
      }
      for (Map.Entry<Vertex, Edge> input : vertex.getInputVertices().entrySet()) {
        DataMovementType kind = input.getValue().getEdgeProperty().getDataMovementType();
        stage.parents.put(input.getKey().getVertexId().getId(), kind == DataMovementType.ONE_TO_ONE);
      }
      description.stages.put(stage.id, stage);
    }
    for (Stage stage : description.stages.values()) {
      for (int parent : stage.parents.keySet()) {
        description.stages.get(parent).children.add(stage.id);
      }
    }
    return description;
  }

  /** The DAG's number within its application. */
  int dag() {
    return dag;
  }

  @Override
  public int vertices() {
    return stages.size();
  }

  @Override
  public List<Integer> ids() {
    return Collections.unmodifiableList(new ArrayList<>(stages.keySet()));
  }

  @Override
  public boolean has(int vertex) {
    return stages.containsKey(vertex);
  }

  @Override
  public int depth(int vertex) {
    return stages.get(vertex).depth;
  }

  @Override
  public Iterable<Integer> parents(int vertex) {
    return stages.get(vertex).parents.keySet();
  }

  @Override
  public List<Integer> children(int vertex) {
    return stages.get(vertex).children;
  }

  /** The body of a request for a plan (docs/tez-plugin.md). */
  byte[] encode() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeInt(dag);
    Texts.write(out, name);
    out.writeInt(stages.size());
    for (Stage stage : stages.values()) {
      DagBodies.writeVertex(out, stage.id, stage.name, stage.tasks, stage.demand, stage.parents);
    }
    return bytes.toByteArray();
  }
}

package io.treadle.shim.mirror;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** A request key of an application, as it was sent last. */
final class KeyRow {
  /** Outstanding count at a node or rack. */
  static final class Locality {
    int count;
    boolean relax;
    long seen;
  }

  final int index;
  final SchedulerRequestKey key;
  final long[] capability;
  /** Outstanding count at ANY; 0: the engine does not know the key, nor its localities. */
  int count;
  boolean relax;
  boolean constrained;
  String partition = "";
  /** By name of node or rack. */
  final Map<String, Locality> localities = new HashMap<>();
  /** Nodes on which containers were placed for it since the last frame; only kept if there are localities. */
  final Set<NodeId> placed = new HashSet<>();
  /** The request whose constraint and allocation tags were sent; null: none were. */
  SchedulingRequest constraintOf;
  boolean dirty;
  long seen;

  KeyRow(int index, SchedulerRequestKey key, int resources) {
    this.index = index;
    this.key = key;
    this.capability = new long[resources];
  }
}

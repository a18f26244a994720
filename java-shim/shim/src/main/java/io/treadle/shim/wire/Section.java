// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The sections of a frame, in the order of their kinds; {@link WireSchema} has their columns. */
public enum Section {
  /** Texts and their indices. After its columns come the texts themselves. */
  STRINGS,
  /** The cluster's resource types. */
  RESOURCE_TYPES,
  /** What else the engine follows of the RM's configuration. */
  SETTINGS,
  /** The queue tree. */
  QUEUES,
  /** Capacities and usage of queues by partition. */
  QUEUE_LIMITS,
  /** Limits and usage of users in leaf queues by partition. */
  USERS,
  /** Nodes. */
  NODES,
  /** Nodes of which only what is free has changed. */
  NODES_FREE,
  /** Attributes of nodes. */
  NODE_ATTRIBUTES,
  /** Application attempts. */
  APPLICATIONS,
  /** What applications use. */
  APPLICATION_USAGE,
  /** Tags of applications. */
  TAGS,
  /** Nodes and racks that applications do not want. */
  BLACKLIST,
  /** Request keys with their outstanding counts at ANY. */
  REQUESTS,
  /** Outstanding counts at nodes and racks. */
  LOCALITIES,
  /** Placement constraints of request keys. */
  CONSTRAINTS,
  /** Allocation tags of constrained request keys. */
  ALLOCATION_TAGS,
  /** Steps in the life of containers. */
  CONTAINERS,
  /** The fates of proposals. */
  FATES,
  /** Keys of application attempts, if the engine wants them. */
  KEYS;

  private final int kind;
  private final boolean whole;
  private final List<String> names;
  private final List<ColumnType> types;

  Section() {
    JsonNode schema = WireSchema.section(name());
    kind = schema.get("kind").asInt();
    whole = schema.get("whole").asBoolean();
    List<String> columnNames = new ArrayList<>();
    List<ColumnType> columnTypes = new ArrayList<>();
    for (JsonNode column : schema.get("columns")) {
      columnNames.add(column.get(0).asText());
      columnTypes.add(ColumnType.parse(column.get(1).asText()));
    }
    names = Collections.unmodifiableList(columnNames);
    types = Collections.unmodifiableList(columnTypes);
  }

  /** The number on the wire. */
  public int kind() {
    return kind;
  }

  /** Whether its rows replace all earlier ones, so that it must not be split over two frames. */
  public boolean isWhole() {
    return whole;
  }

  /** The columns' names, in order. */
  public List<String> columnNames() {
    return names;
  }

  /** The columns' types, in order. */
  public List<ColumnType> columnTypes() {
    return types;
  }
}

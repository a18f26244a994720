// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.hadoop.thirdparty.com.google.common.collect.ImmutableMap;

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

  private static final Map<String, Integer> WIDTHS =
      ImmutableMap.of("u8", Byte.BYTES, "i32", Integer.BYTES, "name", Integer.BYTES, "i64", Long.BYTES);

  /** The number on the wire. */
  public final int kind;
  /** Whether its rows replace all earlier ones, so that it must not be split over two frames. */
  final boolean whole;
  private final List<String> types = new ArrayList<>();

  Section() {
    JsonNode schema = WireSchema.section(name());
    kind = schema.get("kind").asInt();
    whole = schema.get("whole").asBoolean();
    schema.get("columns").forEach(column -> types.add(column.get(1).asText()));
  }

  /** How many bytes a value takes, by column, where there are so many resource types. */
  int[] widths(int resources) {
    return types.stream().flatMapToInt(type -> type.equals("R*i64")
        ? IntStream.generate(() -> Long.BYTES).limit(resources) : IntStream.of(WIDTHS.get(type))).toArray();
  }
}

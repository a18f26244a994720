package io.treadle.shim.wire;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The sections of a frame with their columns: the table of docs/wire-format.md. */
public enum Section {
  /** Texts. After its one column come the texts themselves. */
  STRINGS(1, false, "bytes:i32"),
  /** The cluster's resource types. */
  RESOURCE_TYPES(2, true, "name:name units:name counted:u8 minimum:i64 maximum:i64"),
  /** What else the engine follows of the RM's configuration. */
  SETTINGS(3, true, "key:name value:name"),
  /** The queue tree. */
  QUEUES(4, true, "queue:i32 parent:i32 path:name state:u8 leaf:u8 ordering_policy:name size_based_weight:u8"
      + " priority:i32"),
  /** Capacities and usage of queues by partition. */
  QUEUE_LIMITS(5, false, "queue:i32 partition:name guaranteed:R*i64 maximum:R*i64 used:R*i64 pending:R*i64"
      + " am_limit:R*i64 am_used:R*i64"),
  /** Limits and usage of users in leaf queues by partition. */
  USERS(6, false, "queue:i32 user:name partition:name limit:R*i64 used:R*i64"),
  /** Nodes. */
  NODES(7, false, "node:i32 name:name rack:name partition:name state:u8 total:R*i64 free:R*i64"),
  /** Nodes of which only what is free has changed. */
  NODES_FREE(8, false, "node:i32 free:R*i64"),
  /** Attributes of nodes. */
  NODE_ATTRIBUTES(9, false, "node:i32 attribute:name value:name present:u8"),
  /** How often others than the engine have committed on nodes. */
  NODE_SEQUENCES(10, false, "node:i32 sequence:i32"),
  /** Application attempts. */
  APPLICATIONS(11, false, "application:i32 cluster_timestamp:i64 id:i32 attempt:i32 name:name type:name user:name"
      + " queue:i32 partition:name priority:i32 submit_time_ms:i64 start_time_ms:i64 state:u8 awaiting_am:u8"
      + " replaces:u8"),
  /** What applications use. */
  APPLICATION_USAGE(12, false, "application:i32 containers:i32 used:R*i64 headroom:R*i64"),
  /** Tags of applications. */
  TAGS(13, false, "application:i32 tag:name"),
  /** Nodes and racks that applications do not want. */
  BLACKLIST(14, false, "application:i32 name:name"),
  /** Request keys with their outstanding counts at ANY. */
  REQUESTS(15, false, "application:i32 key:i32 priority:i32 allocation_request_id:i64 count:i32 relax_locality:u8"
      + " constrained:u8 partition:name capability:R*i64"),
  /** Outstanding counts at nodes and racks. */
  LOCALITIES(16, false, "application:i32 key:i32 name:name count:i32 relax_locality:u8"),
  /** Placement constraints of request keys. */
  CONSTRAINTS(17, false, "application:i32 key:i32 text:name opaque:u8"),
  /** Allocation tags of constrained request keys. */
  ALLOCATION_TAGS(18, false, "application:i32 key:i32 tag:name"),
  /** Steps in the life of containers, with all that is known of them. */
  CONTAINERS(19, false, "container:i64 application:i32 priority:i32 node:i32 event:u8 time_ms:i64 created_ms:i64"
      + " exit_status:i32 by_treadle:u8 am:u8 capability:R*i64 slot:i32"),
  /** Further steps of containers whose rows were sent. */
  CONTAINER_STEPS(20, false, "slot:i32 event:u8 age_ms:i32 exit_status:i32"),
  /** The fates of proposals. */
  FATES(21, false, "sequence:i64 position:i32 count:i32 fate:u8"),
  /** Keys of application attempts, if the engine wants them. */
  KEYS(22, false, "application:i32 number:i32 word0:i64 word1:i64 word2:i64 word3:i64");

  private final int kind;
  private final boolean whole;
  private final List<String> names;
  private final List<ColumnType> types;

  Section(int kind, boolean whole, String columns) {
    this.kind = kind;
    this.whole = whole;
    List<String> columnNames = new ArrayList<>();
    List<ColumnType> columnTypes = new ArrayList<>();
    for (String column : columns.split(" ")) {
      String[] parts = column.split(":");
      columnNames.add(parts[0]);
      columnTypes.add(ColumnType.parse(parts[1]));
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

package io.treadle.shim.mirror;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;

/** A user with applications in a leaf queue. */
final class UserRow {
  private final CSQueue leaf;
  private final String user;
  private final TreeSet<String> partitions = new TreeSet<>();
  private final Map<String, long[]> sent = new HashMap<>();
  private int asking;

  UserRow(CSQueue leaf, String user) {
    this.leaf = leaf;
    this.user = user;
    partitions.add("");
  }

  CSQueue leaf() {
    return leaf;
  }

  String user() {
    return user;
  }

  /** The partitions that the user's applications ask for, the default one always. */
  TreeSet<String> partitions() {
    return partitions;
  }

  /** By partition: limit and used, as sent last. */
  Map<String, long[]> sent() {
    return sent;
  }

  /** One more application of the user has outstanding requests, or one less. */
  void asking(int change) {
    asking += change;
  }

  boolean isAsking() {
    return asking > 0;
  }
}

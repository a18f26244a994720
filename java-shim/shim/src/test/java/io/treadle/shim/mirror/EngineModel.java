// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.wire.FrameReader;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

/** What an engine knows that does nothing but read frames as docs/wire-format.md says; as text, to be compared. */
final class EngineModel {
  /** An application as an engine sees it. */
  static final class Application {
    String id;
    String row;
    String usage = "";
    long[] headroom = new long[0];
    final Map<Long, String> requests = new TreeMap<>();
    final Map<Long, Map<String, String>> localities = new TreeMap<>();
    final TreeSet<String> blacklist = new TreeSet<>();
    final TreeSet<String> tags = new TreeSet<>();
    /** By number, which means nothing outside the attempt. */
    final Map<Long, String> containers = new TreeMap<>();
  }

  final List<String> texts = new ArrayList<>();
  final Map<Long, String> nodes = new TreeMap<>();
  final Map<Long, String> nodeNames = new HashMap<>();
  final Map<Long, Application> applications = new TreeMap<>();
  final Map<Long, String> queues = new TreeMap<>();
  final Map<String, String> limits = new TreeMap<>();
  final Map<String, String> users = new TreeMap<>();
  final Map<String, String> settings = new TreeMap<>();
  final List<String> resourceTypes = new ArrayList<>();
  final List<String> containers = new ArrayList<>();
  final List<String> fates = new ArrayList<>();
  /** Attempts that another engine serves now. */
  final Map<Long, Map<String, String>> attributes = new TreeMap<>();
  /** By application and key. */
  final Map<String, String> constraints = new TreeMap<>();
  final Map<String, TreeSet<String>> allocationTags = new TreeMap<>();
  int snapshots;
  long sequence;

  void apply(List<byte[]> frames) {
    for (int i = 0; i < frames.size(); i++) {
      FrameReader frame = new FrameReader(frames.get(i));
      if (frame.sequence() != sequence + 1 || frame.hasMore() != i < frames.size() - 1) {
        throw new IllegalStateException("frame " + frame.sequence() + " after " + sequence);
      }
      sequence = frame.sequence();
      apply(frame);
    }
  }

  private void apply(FrameReader frame) {
    if (frame.isSnapshot()) {
      texts.clear();
      nodes.clear();
      applications.clear();
      limits.clear();
      users.clear();
      attributes.clear();
      constraints.clear();
      allocationTags.clear();
      snapshots++;
    }
    FrameReader.Table indices = frame.table(Section.STRINGS);
    for (int i = 0; i < indices.rows(); i++) {
      int index = (int) indices.at(i, "text");
      if (index == texts.size()) {
        texts.add(frame.texts().get(i));
      } else {
        texts.set(index, frame.texts().get(i));
      }
    }
    applyCluster(frame);
    applyNodes(frame.table(Section.NODES));
    applyAttributes(frame.table(Section.NODE_ATTRIBUTES));
    applyApplications(frame);
    applyContainers(frame);
  }

  private String name(FrameReader.Table table, int row, String column) {
    return texts.get((int) table.at(row, column));
  }

  private static String amounts(FrameReader.Table table, int row, String column) {
    return Arrays.toString(table.amounts(row, column));
  }

  private void applyCluster(FrameReader frame) {
    FrameReader.Table types = frame.table(Section.RESOURCE_TYPES);
    if (types.rows() > 0) {
      resourceTypes.clear();
    }
    for (int i = 0; i < types.rows(); i++) {
      resourceTypes.add(name(types, i, "name") + " " + types.at(i, "counted"));
    }
    FrameReader.Table keys = frame.table(Section.SETTINGS);
    for (int i = 0; i < keys.rows(); i++) {
      settings.put(name(keys, i, "key"), name(keys, i, "value"));
    }
    FrameReader.Table tree = frame.table(Section.QUEUES);
    if (tree.rows() > 0) {
      queues.clear();
    }
    for (int i = 0; i < tree.rows(); i++) {
      long parent = tree.at(i, "parent");
      if (parent != -1 && !queues.containsKey(parent)) {
        throw new IllegalStateException("a queue before its parent");
      }
      queues.put(tree.at(i, "queue"), name(tree, i, "path") + " state=" + tree.at(i, "state") + " leaf="
          + tree.at(i, "leaf") + " policy=" + name(tree, i, "ordering_policy") + " weight="
          + tree.at(i, "size_based_weight") + " priority=" + tree.at(i, "priority"));
    }
    if (tree.rows() > 0) {
      limits.keySet().removeIf(row -> queues.values().stream().noneMatch(
          queue -> queue.startsWith(row.substring(0, row.indexOf('/')) + " ")));
    }
    FrameReader.Table rows = frame.table(Section.QUEUE_LIMITS);
    for (int i = 0; i < rows.rows(); i++) {
      limits.put(path(rows.at(i, "queue")) + "/" + name(rows, i, "partition"), amounts(rows, i, "guaranteed") + " "
          + amounts(rows, i, "maximum") + " " + amounts(rows, i, "used") + " " + amounts(rows, i, "pending"));
    }
    FrameReader.Table people = frame.table(Section.USERS);
    for (int i = 0; i < people.rows(); i++) {
      users.put(path(people.at(i, "queue")) + "/" + name(people, i, "user") + "/" + name(people, i, "partition"),
          amounts(people, i, "limit") + " " + amounts(people, i, "used"));
    }
  }

  String path(long queue) {
    return queues.get(queue).split(" ")[0];
  }

  private void applyNodes(FrameReader.Table table) {
    for (int i = 0; i < table.rows(); i++) {
      long node = table.at(i, "node");
      nodeNames.put(node, name(table, i, "name"));
      if (table.at(i, "state") == 0) {
        nodes.remove(node);
        attributes.remove(node);
      } else {
        nodes.put(node, name(table, i, "name") + " " + name(table, i, "rack") + " " + name(table, i, "partition")
            + " state=" + table.at(i, "state") + " total=" + amounts(table, i, "total") + " free="
            + amounts(table, i, "free"));
      }
    }
  }

  private void applyAttributes(FrameReader.Table rows) {
    for (int i = 0; i < rows.rows(); i++) {
      Map<String, String> of = attributes.computeIfAbsent(rows.at(i, "node"), key -> new TreeMap<>());
      if (rows.at(i, "present") == 1) {
        of.put(name(rows, i, "attribute"), name(rows, i, "value"));
      } else {
        of.remove(name(rows, i, "attribute"));
      }
      if (of.isEmpty()) {
        attributes.remove(rows.at(i, "node"));
      }
    }
  }

  private void applyConstraints(FrameReader.Table rows, FrameReader.Table tags) {
    for (int i = 0; i < rows.rows(); i++) {
      String key = rows.at(i, "application") + " " + rows.at(i, "key");
      constraints.put(key, rows.at(i, "opaque") == 1 ? "opaque" : name(rows, i, "text"));
      allocationTags.remove(key);
    }
    for (int i = 0; i < tags.rows(); i++) {
      allocationTags.computeIfAbsent(tags.at(i, "application") + " " + tags.at(i, "key"), key -> new TreeSet<>())
          .add(name(tags, i, "tag"));
    }
  }

  private void applyApplications(FrameReader frame) {
    FrameReader.Table table = frame.table(Section.APPLICATIONS);
    for (int i = 0; i < table.rows(); i++) {
      applyApplication(table, i);
    }
    FrameReader.Table usage = frame.table(Section.APPLICATION_USAGE);
    for (int i = 0; i < usage.rows(); i++) {
      Application app = applications.get(usage.at(i, "application"));
      app.usage = usage.at(i, "containers") + " " + amounts(usage, i, "used");
      app.headroom = usage.amounts(i, "headroom");
    }
    FrameReader.Table tags = frame.table(Section.TAGS);
    for (int i = 0; i < tags.rows(); i++) {
      applications.get(tags.at(i, "application")).tags.add(name(tags, i, "tag"));
    }
    FrameReader.Table blacklists = frame.table(Section.BLACKLIST);
    for (int i = 0; i < blacklists.rows(); i++) {
      TreeSet<String> names = applications.get(blacklists.at(i, "application")).blacklist;
      if (blacklists.at(i, "present") == 1) {
        names.add(name(blacklists, i, "name"));
      } else {
        names.remove(name(blacklists, i, "name"));
      }
    }
    applyRequests(frame.table(Section.REQUESTS), frame.table(Section.LOCALITIES));
    applyConstraints(frame.table(Section.CONSTRAINTS), frame.table(Section.ALLOCATION_TAGS));
  }

  private void applyApplication(FrameReader.Table table, int i) {
    long index = table.at(i, "application");
    if (table.at(i, "state") == 0) {
      applications.remove(index);
      return;
    }
    Application app = applications.computeIfAbsent(index, key -> new Application());
    app.id = table.at(i, "cluster_timestamp") + "_" + table.at(i, "id") + "_" + table.at(i, "attempt");
    app.row = name(table, i, "name") + " " + name(table, i, "type") + " " + name(table, i, "user") + " "
        + path(table.at(i, "queue")) + " priority=" + table.at(i, "priority") + " state=" + table.at(i, "state")
        + " awaiting_am=" + table.at(i, "awaiting_am");
    if ((table.at(i, "replaces") & 1) != 0) {
      app.requests.clear();
      app.localities.clear();
    }
    if ((table.at(i, "replaces") & 2) != 0) {
      app.blacklist.clear();
    }
    if ((table.at(i, "replaces") & 4) != 0) {
      app.tags.clear();
    }
  }

  private void applyRequests(FrameReader.Table requests, FrameReader.Table localities) {
    for (int i = 0; i < requests.rows(); i++) {
      Application app = applications.get(requests.at(i, "application"));
      long key = requests.at(i, "key");
      if (requests.at(i, "count") == 0) {
        app.requests.remove(key);
        app.localities.remove(key);
      } else {
        app.requests.put(key, "priority=" + requests.at(i, "priority") + " id="
            + requests.at(i, "allocation_request_id") + " count=" + requests.at(i, "count") + " relax="
            + requests.at(i, "relax_locality") + " constrained=" + requests.at(i, "constrained") + " partition="
            + name(requests, i, "partition") + " " + amounts(requests, i, "capability"));
      }
    }
    for (int i = 0; i < localities.rows(); i++) {
      Application app = applications.get(localities.at(i, "application"));
      Map<String, String> names = app.localities.computeIfAbsent(localities.at(i, "key"), key -> new TreeMap<>());
      if (localities.at(i, "count") == 0) {
        names.remove(name(localities, i, "name"));
      } else {
        names.put(name(localities, i, "name"),
            localities.at(i, "count") + " relax=" + localities.at(i, "relax_locality"));
      }
    }
  }

  private void applyContainers(FrameReader frame) {
    FrameReader.Table table = frame.table(Section.CONTAINERS);
    for (int i = 0; i < table.rows(); i++) {
      long number = table.at(i, "container");
      containers.add(number + " event=" + table.at(i, "event") + " exit=" + table.at(i, "exit_status") + " treadle="
          + table.at(i, "by_treadle") + " am=" + table.at(i, "am"));
      Application app = applications.get(table.at(i, "application"));
      if (app != null && table.at(i, "event") == 3) {
        app.containers.remove(number);
      } else if (app != null) {
        app.containers.put(number, nodeNames.get(table.at(i, "node")) + " " + amounts(table, i, "capability"));
      }
    }
    FrameReader.Table rows = frame.table(Section.FATES);
    for (int i = 0; i < rows.rows(); i++) {
      for (int k = 0; k < rows.at(i, "count"); k++) {
        fates.add(rows.at(i, "sequence") + " " + (rows.at(i, "position") + k) + " " + rows.at(i, "fate"));
      }
    }
  }
}

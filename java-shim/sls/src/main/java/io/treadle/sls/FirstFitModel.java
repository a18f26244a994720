// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The first-fit engine's model of the cluster: absolute values from the frames, and the resources of its own proposals
 * in flight.
 */
final class FirstFitModel {
  final List<Node> nodes = new ArrayList<>();
  private final Map<Integer, Application> applications = new HashMap<>();
  private final Map<Integer, Queue> queues = new HashMap<>();
  private final List<Assumed> assumed = new ArrayList<>();
  private boolean[] counted = new boolean[0];
  private List<Application> order;

  /** A node: its free resources by the frames, and those taken by our proposals since. */
  static final class Node {
    int index;
    int name;
    int rack;
    int partition;
    boolean usable;
    long[] free;
  }

  /** A queue in one partition only has its limits here; in others it is unlimited. */
  static final class Queue {
    int parent = -1;
    final Map<Integer, long[]> maximum = new HashMap<>();
    final Map<Integer, long[]> used = new HashMap<>();
  }

  /** An application attempt and its outstanding requests by key. */
  static final class Application {
    int index;
    long started;
    int id;
    int queue;
    int user;
    int priority;
    boolean active;
    boolean awaitingAm;
    final Set<Integer> blacklist = new HashSet<>();
    final Map<Integer, Request> requests = new TreeMap<>();
  }

  /** A request key. */
  static final class Request {
    int key;
    int priority;
    int count;
    boolean placeable;
    int partition;
    long[] capability;
  }

  /** A proposal whose fate is not known yet. */
  private static final class Assumed {
    final long sequence;
    final Node node;
    final Application application;
    /** The request that it is subtracted from; another one if the frame repeats the key. */
    Request request;

    Assumed(long sequence, Node node, Application application, Request request) {
      this.sequence = sequence;
      this.node = node;
      this.application = application;
      this.request = request;
    }
  }

  /** Takes over a frame. */
  void apply(FrameReader frame) {
    if (frame.has(FrameReader.FLAG_SNAPSHOT)) {
      forget();
    }
    // rows are absolute: what our proposals took is given back first, and taken again if their fate is not known yet
    assumed.forEach(proposal -> take(proposal, -1));
    readResourceTypes(frame.section(FrameReader.RESOURCE_TYPES));
    readQueues(frame.section(FrameReader.QUEUES));
    readQueueLimits(frame.section(FrameReader.QUEUE_LIMITS));
    readNodes(frame.section(FrameReader.NODES));
    readApplications(frame.section(FrameReader.APPLICATIONS), frame.resources());
    readBlacklist(frame.section(FrameReader.BLACKLIST));
    readRequests(frame.section(FrameReader.REQUESTS));
    dropDecided(frame.section(FrameReader.FATES));
    for (Assumed proposal : assumed) {
      proposal.request = proposal.application.requests.getOrDefault(proposal.request.key, proposal.request);
      take(proposal, 1);
    }
  }

  /**
   * Applications in the order in which they are served: those without a master first, then by priority, then by age.
   */
  List<Application> inOrder() {
    if (order == null) {
      order = new ArrayList<>(applications.values());
      order.sort(Comparator.comparing((Application application) -> !application.awaitingAm)
          .thenComparing(application -> -application.priority).thenComparing(application -> application.started)
          .thenComparing(application -> application.id));
    }
    return order;
  }

  /** Whether a container of this size fits on the node, in the resources that the cluster counts. */
  boolean fits(long[] capability, Node node) {
    for (int r = 0; r < capability.length; r++) {
      if (counted[r] && capability[r] > node.free[r]) {
        return false;
      }
    }
    return true;
  }

  /** Whether the queue and all above it stay within their maximum in this partition. */
  boolean withinMaximum(Application application, int partition, long[] capability) {
    for (Queue queue = queues.get(application.queue); queue != null; queue = queues.get(queue.parent)) {
      long[] maximum = queue.maximum.get(partition);
      long[] used = queue.used.get(partition);
      for (int r = 0; maximum != null && r < capability.length; r++) {
        if (counted[r] && used[r] + capability[r] > maximum[r]) {
          return false;
        }
      }
    }
    return true;
  }

  /** Notes a proposal: until its fate is known it counts as placed. */
  void assume(long sequence, Application application, Request request, Node node) {
    Assumed proposal = new Assumed(sequence, node, application, request);
    assumed.add(proposal);
    take(proposal, 1);
  }

  /** The fates of an answer's proposals come in one frame, whose rows have the state after its commits. */
  private void dropDecided(FrameReader.Section fates) {
    Set<Long> decided = new HashSet<>();
    for (long sequence : fates.longs()) {
      decided.add(sequence);
    }
    assumed.removeIf(proposal -> decided.contains(proposal.sequence));
  }

  private void take(Assumed proposal, int sign) {
    Request request = proposal.request;
    Node node = proposal.node;
    request.count -= sign;
    for (int r = 0; r < request.capability.length; r++) {
      node.free[r] -= sign * request.capability[r];
    }
    for (Queue queue = queues.get(proposal.application.queue); queue != null; queue = queues.get(queue.parent)) {
      long[] used = queue.used.get(node.partition);
      for (int r = 0; used != null && r < request.capability.length; r++) {
        used[r] += sign * request.capability[r];
      }
    }
  }

  private void forget() {
    nodes.clear();
    applications.clear();
    queues.clear();
    assumed.clear();
    order = null;
  }

  private void readResourceTypes(FrameReader.Section section) {
    if (section.rows() > 0) {
      byte[] flags = section.skip(8).flags();
      counted = new boolean[flags.length];
      for (int i = 0; i < flags.length; i++) {
        counted[i] = flags[i] != 0;
      }
    }
  }

  private void readQueues(FrameReader.Section section) {
    if (section.rows() == 0) {
      return;
    }
    Map<Integer, Queue> before = new HashMap<>(queues);
    queues.clear();
    int[] index = section.ints();
    int[] parent = section.ints();
    for (int i = 0; i < section.rows(); i++) {
      Queue queue = before.getOrDefault(index[i], new Queue());
      queue.parent = parent[i];
      queues.put(index[i], queue);
    }
  }

  private void readQueueLimits(FrameReader.Section section) {
    int[] index = section.ints();
    int[] partition = section.ints();
    section.amounts();
    long[][] maximum = section.amounts();
    long[][] used = section.amounts();
    for (int i = 0; i < section.rows(); i++) {
      Queue queue = queues.computeIfAbsent(index[i], key -> new Queue());
      queue.maximum.put(partition[i], maximum[i]);
      queue.used.put(partition[i], used[i]);
    }
  }

  private void readNodes(FrameReader.Section section) {
    int[] index = section.ints();
    int[] name = section.ints();
    int[] rack = section.ints();
    int[] partition = section.ints();
    byte[] state = section.flags();
    section.amounts();
    long[][] free = section.amounts();
    for (int i = 0; i < section.rows(); i++) {
      while (nodes.size() <= index[i]) {
        nodes.add(new Node());
      }
      Node node = nodes.get(index[i]);
      node.index = index[i];
      node.name = name[i];
      node.rack = rack[i];
      node.partition = partition[i];
      node.usable = state[i] == 1;
      node.free = free[i];
    }
  }

  private void readApplications(FrameReader.Section section, int resources) {
    int[] index = section.ints();
    section.skip(8);
    int[] id = section.ints();
    section.skip(4 + 4 + 4);
    int[] user = section.ints();
    int[] queue = section.ints();
    section.skip(4);
    int[] priority = section.ints();
    section.skip(8);
    long[] started = section.longs();
    byte[] state = section.flags();
    byte[] awaitingAm = section.flags();
    byte[] replaces = section.flags();
    for (int i = 0; i < section.rows(); i++) {
      order = null;
      if (state[i] == 0) {
        applications.remove(index[i]);
        continue;
      }
      Application application = applications.computeIfAbsent(index[i], key -> new Application());
      application.index = index[i];
      application.id = id[i];
      application.user = user[i];
      application.queue = queue[i];
      application.priority = priority[i];
      application.started = started[i];
      application.active = state[i] == 1;
      application.awaitingAm = awaitingAm[i] != 0;
      if ((replaces[i] & 1) != 0) {
        application.requests.clear();
      }
      if ((replaces[i] & 2) != 0) {
        application.blacklist.clear();
      }
    }
  }

  private void readBlacklist(FrameReader.Section section) {
    int[] index = section.ints();
    int[] name = section.ints();
    for (int i = 0; i < section.rows(); i++) {
      Application application = applications.get(index[i]);
      if (application != null) {
        application.blacklist.add(name[i]);
      }
    }
  }

  private void readRequests(FrameReader.Section section) {
    int[] index = section.ints();
    int[] key = section.ints();
    int[] priority = section.ints();
    section.skip(8);
    int[] count = section.ints();
    byte[] relaxLocality = section.flags();
    byte[] constrained = section.flags();
    int[] partition = section.ints();
    long[][] capability = section.amounts();
    for (int i = 0; i < section.rows(); i++) {
      Application application = applications.get(index[i]);
      if (application == null) {
        continue;
      }
      if (count[i] == 0) {
        application.requests.remove(key[i]);
        continue;
      }
      Request request = application.requests.computeIfAbsent(key[i], unused -> new Request());
      request.key = key[i];
      request.priority = priority[i];
      request.count = count[i];
      request.placeable = relaxLocality[i] != 0 && constrained[i] == 0;
      request.partition = partition[i];
      request.capability = capability[i];
    }
  }
}

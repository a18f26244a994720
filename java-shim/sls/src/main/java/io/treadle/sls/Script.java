// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.records.Resource;

/**
 * What a run of the testbed plays: the jobs, in the order in which they come, and the attributes of nodes by host. It
 * is a JSON file that {@code treadle.lab.testbed} writes and checks.
 */
final class Script {
  /** Where the file is; without one there is no script. */
  static final String FILE_KEY = "treadle.testbed.script";

  private static Script shared;

  private final Map<String, Map<String, String>> attributes;
  private final Queue<Job> jobs;

  private Script(Map<String, Map<String, String>> attributes, Queue<Job> jobs) {
    this.attributes = attributes;
    this.jobs = jobs;
  }

  /** Some tasks that ask for the same, with one priority. */
  static final class Stage {
    /** Empty if it is not used. */
    final String name;
    /** Priority of its requests; stages of a job with different resources have different ones. */
    final int priority;
    final Resource resource;
    final long[] durationsMs;
    /** Which stages must have ended before it asks. */
    final int[] after;

    private Stage(Stage stage, int priority) {
      name = stage.name;
      this.priority = priority;
      resource = stage.resource;
      durationsMs = stage.durationsMs;
      after = stage.after;
    }

    Stage(JsonNode node) {
      name = node.get("name").asText();
      priority = node.get("priority").asInt();
      resource = Resource.newInstance(0, 0);
      node.get("resources").fields()
          .forEachRemaining(each -> resource.setResourceValue(each.getKey(), each.getValue().asLong()));
      durationsMs = new long[node.get("durations_ms").size()];
      for (int i = 0; i < durationsMs.length; i++) {
        durationsMs[i] = node.get("durations_ms").get(i).asLong();
      }
      after = new int[node.get("after").size()];
      for (int i = 0; i < after.length; i++) {
        after[i] = node.get("after").get(i).asInt();
      }
    }

    /** The same stage with another priority. */
    Stage at(int otherPriority) {
      return new Stage(this, otherPriority);
    }
  }

  /** A job as its user submits it, and what its application master will ask for. */
  static final class Job {
    final String name;
    final String user;
    final String queue;
    final String type;
    final long atMs;
    /** When it leaves, whatever of it is undone; 0: when its tasks have ended. */
    final long untilMs;
    final long masterMb;
    final Set<String> tags = new LinkedHashSet<>();
    /** What a node's attributes must be for its tasks; said to the ResourceManager by tags alone. */
    final Map<String, String> requires;
    final List<Stage> stages = new ArrayList<>();

    Job(JsonNode node) {
      name = node.get("name").asText();
      user = node.get("user").asText();
      queue = node.get("queue").asText();
      type = node.get("type").asText();
      atMs = node.get("at_ms").asLong();
      untilMs = node.get("until_ms").asLong();
      masterMb = node.get("master_mb").asLong();
      node.get("tags").forEach(tag -> tags.add(tag.asText()));
      requires = texts(node.get("requires"));
      node.get("stages").forEach(stage -> stages.add(new Stage(stage)));
    }
  }

  /** Reads a script. */
  static Script read(File file) throws IOException {
    JsonNode root = new ObjectMapper().readTree(file);
    Map<String, Map<String, String>> attributes = new HashMap<>();
    root.get("attributes").fields().forEachRemaining(each -> attributes.put(each.getKey(), texts(each.getValue())));
    Queue<Job> jobs = new ArrayDeque<>();
    root.get("jobs").forEach(each -> jobs.add(new Job(each)));
    return new Script(attributes, jobs);
  }

  /** The script of this JVM's run, read once; an empty one if the configuration names none. */
  static synchronized Script of(Configuration conf) throws IOException {
    if (shared == null) {
      String file = conf.get(FILE_KEY);
      shared = file == null ? new Script(Collections.emptyMap(), new ArrayDeque<>()) : read(new File(file));
    }
    return shared;
  }

  private static Map<String, String> texts(JsonNode node) {
    Map<String, String> found = new HashMap<>();
    node.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().asText()));
    return found;
  }

  /** The attributes of hosts that have any. */
  Map<String, Map<String, String>> attributes() {
    return attributes;
  }

  /** Whether a host has these attributes with these values. */
  boolean has(String host, Map<String, String> wanted) {
    return attributes.getOrDefault(host, Collections.emptyMap()).entrySet().containsAll(wanted.entrySet());
  }

  /** The next job, each once. */
  synchronized Job next() {
    Job job = jobs.poll();
    if (job == null) {
      throw new IllegalStateException("the script has fewer jobs than the trace");
    }
    return job;
  }
}

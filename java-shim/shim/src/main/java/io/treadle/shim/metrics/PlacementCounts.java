// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationId;

/**
 * How many containers of each application Treadle placed, and how many anyone else. Of the last applications only.
 * Thread-safe.
 */
public final class PlacementCounts {
  /** The applications that are remembered: those that got their first container last. */
  static final int APPLICATIONS = 1000;

  private final Map<ApplicationId, long[]> counts = new LinkedHashMap<ApplicationId, long[]>() {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<ApplicationId, long[]> eldest) {
      return size() > APPLICATIONS;
    }
  };

  /** One container of an application was placed. */
  synchronized void add(ApplicationId application, boolean byTreadle) {
    counts.computeIfAbsent(application, id -> new long[2])[byTreadle ? 0 : 1]++;
  }

  /** A JSON object: {@code {"application_...": {"treadle": n, "native": n}}}. */
  public String json() {
    ObjectNode rows = JsonNodeFactory.instance.objectNode();
    copy().forEach((application, count) ->
        rows.putObject(application.toString()).put("treadle", count[0]).put("native", count[1]));
    return rows.toString();
  }

  /** Texts are made of a copy: a thread that adds may hold the scheduler's lock. */
  private synchronized Map<ApplicationId, long[]> copy() {
    Map<ApplicationId, long[]> copy = new LinkedHashMap<>();
    counts.forEach((application, count) -> copy.put(application, count.clone()));
    return copy;
  }
}

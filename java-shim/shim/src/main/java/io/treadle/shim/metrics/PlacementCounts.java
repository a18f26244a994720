package io.treadle.shim.metrics;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.yarn.api.records.ApplicationId;

/**
 * How many containers of each application Treadle placed, and how many anyone else. Of the last applications only.
 * Thread-safe.
 */
public final class PlacementCounts implements PlacementsMXBean {
  /** The applications that are remembered: those that got their first container last. */
  static final int APPLICATIONS = 1000;
  private static final ObjectMapper JSON = new ObjectMapper();

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

  @Override
  public String getPlacements() {
    Map<String, Map<String, Long>> rows = new LinkedHashMap<>();
    copy().forEach((application, count) -> {
      Map<String, Long> row = new LinkedHashMap<>();
      row.put("treadle", count[0]);
      row.put("native", count[1]);
      rows.put(application.toString(), row);
    });
    try {
      return JSON.writeValueAsString(rows);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("texts and numbers can be written as JSON", e);
    }
  }

  /** Texts are made of a copy: a thread that adds may hold the scheduler's lock. */
  private synchronized Map<ApplicationId, long[]> copy() {
    Map<ApplicationId, long[]> copy = new LinkedHashMap<>();
    counts.forEach((application, count) -> copy.put(application, count.clone()));
    return copy;
  }
}

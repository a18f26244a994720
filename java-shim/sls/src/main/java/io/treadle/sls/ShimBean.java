// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** The shim's own metrics, read from its JMX bean as any monitoring would. */
final class ShimBean {
  private static final String NAME = "Hadoop:service=ResourceManager,name=Treadle";
  private static final ObjectMapper JSON = new ObjectMapper();

  private ShimBean() {
  }

  /** All numbers and texts of the bean; empty if there is no such bean. */
  static Map<String, Object> status() {
    try {
      MBeanServer server = ManagementFactory.getPlatformMBeanServer();
      ObjectName name = new ObjectName(NAME);
      if (!server.isRegistered(name)) {
        return new TreeMap<>();
      }
      return JSON.readValue((String) server.getAttribute(name, "Status"), new TypeReference<TreeMap<String, Object>>() {
      });
    } catch (JMException | IOException e) {
      return new TreeMap<>(Collections.singletonMap("Unreadable", e.toString()));
    }
  }

  /** The figures of each of several engines, by the engine's name; empty if there is one only. */
  static Map<String, JsonNode> engines() {
    Map<String, JsonNode> found = new TreeMap<>();
    Object text = status().get("Engines");
    try {
      JSON.readTree(text == null || text.toString().isEmpty() ? "{}" : text.toString()).path("engines").fields()
          .forEachRemaining(engine -> found.put(engine.getKey(), engine.getValue()));
    } catch (IOException e) {
      found.put("unreadable", TextNode.valueOf(e.toString()));
    }
    return found;
  }

  /** How many of several engines serve the applications that are theirs. */
  static int serveTheirOwn() {
    int count = 0;
    for (Map.Entry<String, JsonNode> engine : engines().entrySet()) {
      count += engine.getKey().equals(engine.getValue().path("served_by").asText()) ? 1 : 0;
    }
    return count;
  }

  /** Whether the engine holds the lease. */
  static boolean leaseHeld() {
    Object held = status().get("LeaseHeld");
    return held instanceof Number && ((Number) held).longValue() == 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** The shim's own metrics, read from its JMX bean as any monitoring would. */
final class ShimBean {
  private static final String NAME = "Hadoop:service=ResourceManager,name=Treadle";
  private static final ObjectMapper JSON = new ObjectMapper();

  private ShimBean() {
  }

  /** All attributes of the bean that are numbers or texts; empty if there is no such bean. */
  static Map<String, Object> attributes() {
    return attributesOf(NAME);
  }

  /** The figures of each of several engines, by the engine's name; empty if there is one only. */
  static Map<String, JsonNode> engines() {
    Map<String, JsonNode> found = new TreeMap<>();
    Object text = attributes().get("Engines");
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

  private static Map<String, Object> attributesOf(String bean) {
    Map<String, Object> values = new TreeMap<>();
    try {
      MBeanServer server = ManagementFactory.getPlatformMBeanServer();
      ObjectName name = new ObjectName(bean);
      if (!server.isRegistered(name)) {
        return values;
      }
      MBeanAttributeInfo[] infos = server.getMBeanInfo(name).getAttributes();
      String[] names = new String[infos.length];
      for (int i = 0; i < infos.length; i++) {
        names[i] = infos[i].getName();
      }
      for (Attribute attribute : server.getAttributes(name, names).asList()) {
        Object value = attribute.getValue();
        if (value instanceof Number || value instanceof String) {
          values.put(attribute.getName(), value);
        }
      }
    } catch (JMException e) {
      values.put("Unreadable", e.toString());
    }
    return values;
  }

  /** Whether the engine holds the lease. */
  static boolean leaseHeld() {
    Object held = attributes().get("LeaseHeld");
    return held instanceof Number && ((Number) held).longValue() == 1;
  }
}

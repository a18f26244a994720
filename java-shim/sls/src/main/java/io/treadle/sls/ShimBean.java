package io.treadle.sls;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.Collections;
import java.util.Iterator;
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
  private static final String ENGINE = "Engine-";
  private static final ObjectMapper JSON = new ObjectMapper();

  private ShimBean() {
  }

  /** All attributes of the bean that are numbers or texts; empty if there is no such bean. */
  static Map<String, Object> attributes() {
    return attributesOf(NAME);
  }

  /** The same of the bean of each of several engines, by the engine's name; empty if there is one only. */
  static Map<String, Map<String, Object>> engines() {
    Map<String, Map<String, Object>> found = new TreeMap<>();
    try {
      ObjectName pattern = new ObjectName(NAME + ENGINE + "*");
      for (ObjectName name : ManagementFactory.getPlatformMBeanServer().queryNames(pattern, null)) {
        String engine = name.getKeyProperty("name").substring("Treadle".length());
        found.put(engine.substring(ENGINE.length()), attributesOf(NAME + engine));
      }
    } catch (JMException e) {
      found.put("unreadable", Collections.singletonMap("Unreadable", e.toString()));
    }
    return found;
  }

  /** How many of several engines serve the applications that are theirs. */
  static int serveTheirOwn() {
    int count = 0;
    try {
      Object text = attributesOf(NAME + "Engines").get("Engines");
      JsonNode roster = JSON.readTree(text == null ? "{}" : text.toString());
      Iterator<Map.Entry<String, JsonNode>> engines = roster.path("engines").fields();
      while (engines.hasNext()) {
        Map.Entry<String, JsonNode> engine = engines.next();
        count += engine.getKey().equals(engine.getValue().path("served_by").asText()) ? 1 : 0;
      }
    } catch (IOException e) {
      return 0;
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

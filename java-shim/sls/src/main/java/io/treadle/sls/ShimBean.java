package io.treadle.sls;

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

  private ShimBean() {
  }

  /** All attributes of the bean that are numbers or texts; empty if there is no such bean. */
  static Map<String, Object> attributes() {
    Map<String, Object> values = new TreeMap<>();
    try {
      MBeanServer server = ManagementFactory.getPlatformMBeanServer();
      ObjectName name = new ObjectName(NAME);
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

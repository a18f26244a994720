package io.treadle.shim.metrics;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;

/**
 * The metrics as a bean that reads them when it is asked. Texts appear under their name and, as metrics2 does it, as
 * {@code tag.name}; how long decisions took, which is no tag, as {@code DecideCounts}.
 */
final class MetricsBean implements DynamicMBean {
  private final Supplier<Map<String, Long>> numbers;
  private final Supplier<Map<String, String>> texts;
  private final Supplier<String> decideCounts;

  MetricsBean(Supplier<Map<String, Long>> numbers, Supplier<Map<String, String>> texts, Supplier<String> decideCounts) {
    this.numbers = numbers;
    this.texts = texts;
    this.decideCounts = decideCounts;
  }

  private Map<String, Object> values() {
    Map<String, Object> values = new LinkedHashMap<>(numbers.get());
    texts.get().forEach((name, text) -> {
      values.put(name, text);
      values.put("tag." + name, text);
    });
    values.put("DecideCounts", decideCounts.get());
    return values;
  }

  @Override
  public Object getAttribute(String name) throws AttributeNotFoundException {
    Object value = values().get(name);
    if (value == null) {
      throw new AttributeNotFoundException(name);
    }
    return value;
  }

  @Override
  public AttributeList getAttributes(String[] names) {
    Map<String, Object> values = values();
    AttributeList list = new AttributeList();
    for (String name : names) {
      if (values.containsKey(name)) {
        list.add(new Attribute(name, values.get(name)));
      }
    }
    return list;
  }

  @Override
  public void setAttribute(Attribute attribute) throws AttributeNotFoundException {
    throw new AttributeNotFoundException(attribute.getName() + " can only be read");
  }

  @Override
  public AttributeList setAttributes(AttributeList attributes) {
    return new AttributeList();
  }

  @Override
  public Object invoke(String action, Object[] parameters, String[] signature) {
    throw new UnsupportedOperationException(action);
  }

  @Override
  public MBeanInfo getMBeanInfo() {
    List<MBeanAttributeInfo> attributes = new ArrayList<>();
    values().forEach((name, value) ->
        attributes.add(new MBeanAttributeInfo(name, value.getClass().getName(), name, true, false, false)));
    return new MBeanInfo(MetricsBean.class.getName(), "Treadle", attributes.toArray(new MBeanAttributeInfo[0]), null,
        null, null);
  }
}

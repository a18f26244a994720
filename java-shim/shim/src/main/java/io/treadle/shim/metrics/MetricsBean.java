// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;

/** Numbers and texts as a bean. Each read of an attribute computes this attribute and no other. */
final class MetricsBean implements DynamicMBean {
  private final Map<String, LongSupplier> numbers;
  private final Map<String, Supplier<String>> texts;

  MetricsBean(Map<String, LongSupplier> numbers, Map<String, Supplier<String>> texts) {
    this.numbers = numbers;
    this.texts = texts;
  }

  @Override
  public Object getAttribute(String name) throws AttributeNotFoundException {
    if (numbers.containsKey(name)) {
      return numbers.get(name).getAsLong();
    }
    if (texts.containsKey(name)) {
      return texts.get(name).get();
    }
    throw new AttributeNotFoundException(name);
  }

  @Override
  public AttributeList getAttributes(String[] names) {
    AttributeList list = new AttributeList();
    for (String name : names) {
      try {
        list.add(new Attribute(name, getAttribute(name)));
      } catch (AttributeNotFoundException e) {
        // the caller sees that it is missing
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
    numbers.keySet().forEach(name -> attributes.add(info(name, Long.class)));
    texts.keySet().forEach(name -> attributes.add(info(name, String.class)));
    return new MBeanInfo(MetricsBean.class.getName(), "Treadle", attributes.toArray(new MBeanAttributeInfo[0]), null,
        null, null);
  }

  private static MBeanAttributeInfo info(String name, Class<?> type) {
    return new MBeanAttributeInfo(name, type.getName(), name, true, false, false);
  }
}

// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Private fields and methods of Hadoop and Treadle without a public accessor. */
final class Insides {
  private Insides() {
  }

  /** The value of a field of an object, of a field of that value, and so on. */
  static Object get(Object object, String... fields) {
    Object value = object;
    for (String name : fields) {
      try {
        Field field = value.getClass().getDeclaredField(name);
        field.setAccessible(true);
        value = field.get(value);
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(value.getClass() + " has no " + name + " any more: change the stub", e);
      }
    }
    return value;
  }

  /** What a method of CapacityScheduler answers, whose parameters have these types. */
  static Object call(CapacityScheduler scheduler, String name, Class<?>[] types, Object... arguments) {
    try {
      Method method = CapacityScheduler.class.getDeclaredMethod(name, types);
      method.setAccessible(true);
      return method.invoke(scheduler, arguments);
    } catch (InvocationTargetException e) {
      if (e.getCause() instanceof RuntimeException) {
        throw (RuntimeException) e.getCause();
      }
      throw new IllegalStateException(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("CapacityScheduler has no " + name + " any more: change the stub", e);
    }
  }
}

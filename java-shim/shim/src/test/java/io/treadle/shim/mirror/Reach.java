// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;

/**
 * What an object keeps in memory: what its fields lead to, through classes of the shim and through collections. The
 * scheduler itself, which the mirror reads, is not entered.
 */
final class Reach {
  private static final String OURS = "io.treadle.shim.";

  private final Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
  private final Deque<Object> next = new ArrayDeque<>();

  private Reach() {
  }

  static Reach from(Object root) throws IllegalAccessException {
    Reach reach = new Reach();
    reach.add(root);
    while (!reach.next.isEmpty()) {
      reach.enter(reach.next.poll());
    }
    return reach;
  }

  /** How many objects there are. */
  long count() {
    return seen.size();
  }

  boolean to(Object object) {
    return seen.contains(object);
  }

  private void add(Object object) {
    if (object != null && seen.add(object)) {
      next.add(object);
    }
  }

  private void enter(Object object) throws IllegalAccessException {
    if (object instanceof Collection) {
      ((Collection<?>) object).forEach(this::add);
    } else if (object instanceof Map) {
      ((Map<?, ?>) object).forEach((key, value) -> {
        add(key);
        add(value);
      });
    } else if (object.getClass().isArray() && !object.getClass().getComponentType().isPrimitive()) {
      for (int i = 0; i < Array.getLength(object); i++) {
        add(Array.get(object, i));
      }
    } else if (object.getClass().getName().startsWith(OURS) && !(object instanceof TappedScheduler)) {
      for (Field field : object.getClass().getDeclaredFields()) {
        if (!Modifier.isStatic(field.getModifiers()) && !field.getType().isPrimitive()) {
          field.setAccessible(true);
          add(field.get(object));
        }
      }
    }
  }
}

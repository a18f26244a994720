// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.LinkedHashMap;
import java.util.Map;

/** Requirements that were read lately: all asks of an application, and all applications like it, share one. */
final class ExpressionCache {
  /** A requirement is at most 1,000 characters. */
  private static final int ENTRIES = 1024;

  private static final Map<String, Expression> READ = new LinkedHashMap<String, Expression>(16, 0.75f, true) {
    private static final long serialVersionUID = 1L;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, Expression> eldest) {
      return size() > ENTRIES;
    }
  };

  private ExpressionCache() {
  }

  /**
   * Reads a requirement.
   *
   * @throws ExpressionException if it cannot be read; such a one is not kept
   */
  static Expression parse(String text) throws ExpressionException {
    synchronized (READ) {
      Expression known = READ.get(text);
      if (known != null) {
        return known;
      }
    }
    Expression read = Expression.parse(text);
    synchronized (READ) {
      READ.put(text, read);
    }
    return read;
  }

  /** How many are kept; for tests. */
  static int size() {
    synchronized (READ) {
      return READ.size();
    }
  }
}

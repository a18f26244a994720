// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.util.resource.ResourceCalculator;
import org.apache.hadoop.yarn.util.resource.Resources;

/** Which resource types a scheduler's calculator counts: those that it ignores may be given out without end. */
public final class CountedResources {
  private CountedResources() {
  }

  /** Asks the calculator itself whether one unit of a type fits into nothing: one that ignores the type says yes. */
  public static boolean isCounted(ResourceCalculator calculator, int type) {
    Resource one = Resources.createResource(0, 0);
    one.setResourceValue(type, 1);
    return !calculator.fitsIn(one, Resources.createResource(0, 0));
  }
}

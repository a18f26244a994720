// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertNull;

import java.lang.reflect.Field;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.junit.jupiter.api.Test;

/** One placement is used for many proposals: nothing of one may be left for the next. */
class PlacementTest {
  @Test
  void aClearedPlacementHasNothing() throws Exception {
    Placement placement = new Placement();
    placement.mode = SchedulingMode.IGNORE_PARTITION_EXCLUSIVITY;
    placement.locality = NodeType.NODE_LOCAL;
    placement.requestLocality = NodeType.NODE_LOCAL;
    placement.clear();
    for (Field field : Placement.class.getDeclaredFields()) {
      if (!field.isSynthetic()) {
        assertNull(field.get(placement), field.getName());
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GateProbe;

/**
 * Proves at start-up that the gate is the method through which the running RM places containers, by having it place one
 * on a node of {@link GateProbe}. The gate is package-private: with our classes in another class loader than Hadoop's,
 * or in a Hadoop that calls something else, our method of the same name would override nothing, and both schedulers
 * would place containers.
 */
public final class GateCheck {
  /**
   * What a heartbeat calls in every release of Hadoop that is supported; it calls the gate, which has the same name.
   */
  private static final String PLACE = "allocateContainersToNode";

  private GateCheck() {
  }

  /**
   * Checks that the stock scheduler comes to the gate when it is to place containers on a node.
   *
   * @return what is wrong, in words for an administrator, or null
   */
  public static String verdict() {
    try {
      return verdict(new GateProbe());
    } catch (LinkageError e) {
      return unfit(e.toString());
    }
  }

  static String verdict(GateProbe probe) {
    try {
      Method place = CapacityScheduler.class.getDeclaredMethod(PLACE, NodeId.class, boolean.class);
      place.setAccessible(true);
      place.invoke(probe, GateProbe.NODE, true);
      return probe.reached() ? null : unfit("its " + place + " does not come to ours");
    } catch (InvocationTargetException e) {
      return unfit("its " + PLACE + " does not come to ours: " + e.getCause());
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      return unfit(e.toString());
    }
  }

  private static String unfit(String what) {
    return "this Hadoop's CapacityScheduler is not one that Treadle can stand in for: " + what
        + ". Treadle's jar must be in the ResourceManager's own class path, such as share/hadoop/yarn/lib";
  }
}

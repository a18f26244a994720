// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;
import org.apache.hadoop.yarn.util.resource.Resources;

/**
 * A scheduler that is never started and has one node, without room, to prove at start-up that the gate is the method
 * through which the running RM places containers. The gate is package-private: with our classes in another class loader
 * than Hadoop's, or in a Hadoop that calls something else, our method of the same name would override nothing, and both
 * schedulers would place containers.
 */
public class GateProbe extends CapacityScheduler {
  private static final NodeId NODE = NodeId.newInstance("treadle-probe", 1);
  /**
   * What a heartbeat calls in every release of Hadoop that is supported; it calls the gate, which has the same name.
   */
  private static final String PLACE = "allocateContainersToNode";

  private boolean reached;

  /**
   * Checks that the stock scheduler comes to the gate when it is to place containers on a node.
   *
   * @return the problem, in words for an administrator, or null
   */
  public static String verdict() {
    return verdict(new GateProbe());
  }

  /** The same of a probe. */
  public static String verdict(GateProbe probe) {
    try {
      Method place = CapacityScheduler.class.getDeclaredMethod(PLACE, NodeId.class, boolean.class);
      place.setAccessible(true);
      place.invoke(probe, NODE, true);
      return probe.reached ? null : unfit("its " + place + " does not come to ours");
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

  @Override
  public FiCaSchedulerNode getNode(NodeId id) {
    Object node = Proxy.newProxyInstance(RMNode.class.getClassLoader(), new Class<?>[] {RMNode.class},
        (proxy, method, arguments) -> {
          Class<?> type = method.getReturnType();
          if (type == NodeId.class) {
            return NODE;
          }
          return type == Resource.class ? Resources.none() : null;
        });
    return new FiCaSchedulerNode((RMNode) node, false);
  }

  /** As {@link TreadleScheduler} overrides it. */
  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    reached = true;
    return null;
  }
}

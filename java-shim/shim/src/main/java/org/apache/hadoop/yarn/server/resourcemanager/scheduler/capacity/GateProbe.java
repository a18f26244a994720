// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import java.lang.reflect.Proxy;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;
import org.apache.hadoop.yarn.util.resource.Resources;

/** A scheduler that is never started and has one node, without room: whether stock code comes to its gate for that. */
public class GateProbe extends CapacityScheduler {
  /** The name of its node. */
  public static final NodeId NODE = NodeId.newInstance("treadle-probe", 1);

  private boolean reached;

  /** Whether stock code has come to the gate. */
  public boolean reached() {
    return reached;
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

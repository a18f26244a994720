// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager;

import org.apache.hadoop.yarn.server.api.records.OpportunisticContainersStatus;

/** Nodes that take opportunistic containers, and what their allocator knows, which no public method returns. */
public final class OpportunisticNodes {
  private static final int QUEUE_CAPACITY = 1000;

  private OpportunisticNodes() {
  }

  /** The number of nodes that the allocator may place containers on now. */
  public static int usable(RMContext context) {
    return ((OpportunisticContainerAllocatorAMService) context.getApplicationMasterService()).getLeastLoadedNodes()
        .size();
  }

  /** A heartbeat of a node that is idle and lets containers wait; returns when the RM has handled it. */
  public static void beat(MockRM rm, MockNM node) throws Exception {
    OpportunisticContainersStatus idle = OpportunisticContainersStatus.newInstance();
    idle.setEstimatedQueueWaitTime(-1);
    idle.setOpportQueueCapacity(QUEUE_CAPACITY);
    node.nodeHeartbeat(idle, true);
    rm.drainEvents();
  }
}

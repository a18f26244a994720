package org.apache.hadoop.yarn.server.resourcemanager;

/** What the allocator of opportunistic containers knows, which no public method returns. */
public final class OpportunisticNodes {
  private OpportunisticNodes() {
  }

  /** The number of nodes that it may place containers on now. */
  public static int usable(RMContext context) {
    return ((OpportunisticContainerAllocatorAMService) context.getApplicationMasterService()).getLeastLoadedNodes()
        .size();
  }
}

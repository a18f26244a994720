// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.NodeType;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * One container about to be placed: the objects of the RM behind a proposal, filled in step by step by the checks,
 * under the scheduler's lock.
 */
final class Placement {
  FiCaSchedulerApp app;
  CSQueue leaf;
  SchedulerRequestKey key;
  AppPlacementAllocator<FiCaSchedulerNode> asks;
  FiCaSchedulerNode node;
  SchedulingMode mode;
  /** The locality that the allocation is counted as; derived from the asks, an engine's opinion is not taken. */
  NodeType locality;
  /** The best locality that the application asked for on this node. */
  NodeType requestLocality;
  Resource capability;
  /** The leaf's record of the application's user, where the placement is assumed; null without one. */
  UsersManager.User user;
  /** The node's partition where the placement is assumed. */
  String partition;
}

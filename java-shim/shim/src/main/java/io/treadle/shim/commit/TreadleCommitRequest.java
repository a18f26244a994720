// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.Collections;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ContainerAllocationProposal;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;

/** One container that Treadle places: its class is how {@code tryCommit} distinguishes ours from native commits. */
public final class TreadleCommitRequest extends ResourceCommitRequest<FiCaSchedulerApp, FiCaSchedulerNode> {
  TreadleCommitRequest(ContainerAllocationProposal<FiCaSchedulerApp, FiCaSchedulerNode> container) {
    super(Collections.singletonList(container), null, null);
  }
}

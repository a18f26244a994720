// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.wire.Directory;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** A container that the stock scheduler would place now. */
final class Wish {
  private final ApplicationAttemptId attempt;
  private final SchedulerRequestKey key;
  private final NodeId node;

  Wish(ApplicationAttemptId attempt, SchedulerRequestKey key, NodeId node) {
    this.attempt = attempt;
    this.key = key;
    this.node = node;
  }

  /** The proposal in the engine's indices, null if the engine does not know one of these things. */
  int[] proposal(Directory directory) {
    for (int application = directory.applications() - 1; application >= 0; application--) {
      if (attempt.equals(directory.application(application))) {
        int keyIndex = keyIndex(directory, application);
        int nodeIndex = nodeIndex(directory);
        return keyIndex < 0 || nodeIndex < 0 ? null : new int[] {application, keyIndex, nodeIndex};
      }
    }
    return null;
  }

  private int keyIndex(Directory directory, int application) {
    int index = directory.requestKeys(application) - 1;
    while (index >= 0 && !key.equals(directory.requestKey(application, index))) {
      index--;
    }
    return index;
  }

  private int nodeIndex(Directory directory) {
    int index = directory.nodes() - 1;
    while (index >= 0 && !node.equals(directory.node(index))) {
      index--;
    }
    return index;
  }
}

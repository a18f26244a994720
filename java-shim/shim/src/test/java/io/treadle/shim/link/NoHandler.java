// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.CommitPipeline;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;

/** A scheduler that is always ready, and does nothing with answers; tests override what they need. */
class NoHandler extends CommitPipeline {
  NoHandler() {
    super(null, new ShimMetrics(), new CommitSettings(1, 0, () -> 0), null, null);
  }


  @Override
  public String refusal() {
    return null;
  }

  @Override
  public boolean starving() {
    return false;
  }

  @Override
  public boolean ready() {
    return true;
  }

  @Override
  public void entered() {
  }

  @Override
  public int commit(ProposalFrame answer, Directory directory, int limit, BooleanSupplier mayCommit,
      BooleanSupplier isOver) {
    return answer.size();
  }

  @Override
  public void observe(ProposalFrame answer, Directory directory, int limit) {
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.wire.Directory;
import io.treadle.shim.wire.ProposalFrame;
import java.util.function.BooleanSupplier;

/** A scheduler that is always ready, and does nothing with answers; tests override what they need. */
class NoHandler implements AnswerHandler {
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

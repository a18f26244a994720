// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.treadle.shim.cluster.Proposer;
import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Fails a test that {@link Shows} fates which no proposal of a {@link Proposer} met while it ran. */
final class ShownFates implements BeforeTestExecutionCallback, AfterTestExecutionCallback {
  @Override
  public void beforeTestExecution(ExtensionContext test) {
    Proposer.forgetFates();
  }

  @Override
  public void afterTestExecution(ExtensionContext test) {
    if (!test.getExecutionException().isPresent()) {
      Set<Fate> unseen = EnumSet.noneOf(Fate.class);
      unseen.addAll(Arrays.asList(test.getRequiredTestMethod().getAnnotation(Shows.class).value()));
      unseen.removeAll(Proposer.fates());
      assertEquals(EnumSet.noneOf(Fate.class), unseen, "fates that the test shows and no proposal met");
    }
  }
}

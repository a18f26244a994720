// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import io.treadle.shim.wire.Fate;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A test that shows how a proposal meets a fate. {@link ShownFates} fails it if no proposal met it, {@link
 * FateExamplesTest} sees to it that each fate has one.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@ExtendWith(ShownFates.class)
@interface Shows {
  Fate[] value();
}

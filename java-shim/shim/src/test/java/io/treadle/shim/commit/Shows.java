package io.treadle.shim.commit;

import io.treadle.shim.wire.Fate;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** A test that shows how a proposal meets a fate. {@link FateExamplesTest} sees to it that each fate has one. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@interface Shows {
  Fate[] value();
}

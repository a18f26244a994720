// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * Has the ResourceManager make a TreadleScheduler where its configuration asks for a CapacityScheduler, and plants the
 * defects that its arguments name, separated by '+': see {@link Mutant}.
 */
public final class SchedulerAgent {
  private static final String RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager";
  private static final String TIME_LIMIT = "org.junit.internal.runners.statements.FailOnTimeout$Builder";

  private SchedulerAgent() {
  }

  /** Called by the JVM before the tests. */
  public static void premain(String arguments, Instrumentation instrumentation) {
    new AgentBuilder.Default()
        .type(ElementMatchers.named(RESOURCE_MANAGER))
        .transform((builder, type, loader, module, domain) ->
            builder.visit(Advice.to(SchedulerAdvice.class).on(ElementMatchers.named("createScheduler"))))
        .type(ElementMatchers.named(TIME_LIMIT))
        .transform((builder, type, loader, module, domain) ->
            builder.visit(Advice.to(Patience.class).on(ElementMatchers.named("withTimeout"))))
        .installOn(instrumentation);
    if (arguments != null && !arguments.isEmpty()) {
      for (String name : arguments.split("\\+")) {
        Mutant.valueOf(name).plant(instrumentation);
      }
    }
  }

  /**
   * Code woven into JUnit's handling of a test's time limit: limits are meant for a machine that is not shared, and the
   * first test of a JVM pays once for loading, checks and weaving.
   */
  public static final class Patience {
    private Patience() {
    }

    /** Before the limit is noted: four times as long. */
    @Advice.OnMethodEnter
    public static void enter(@Advice.Argument(value = 0, readOnly = false) long limit) {
      limit = 4 * limit;
    }
  }
}

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

  private SchedulerAgent() {
  }

  /** Called by the JVM before the tests. */
  public static void premain(String arguments, Instrumentation instrumentation) {
    new AgentBuilder.Default()
        .type(ElementMatchers.named(RESOURCE_MANAGER))
        .transform((builder, type, loader, module, domain) ->
            builder.visit(Advice.to(SchedulerAdvice.class).on(ElementMatchers.named("createScheduler"))))
        .installOn(instrumentation);
    if (arguments != null && !arguments.isEmpty()) {
      for (String name : arguments.split("\\+")) {
        Mutant.valueOf(name).plant(instrumentation);
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import java.lang.instrument.Instrumentation;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/** Defects to be planted in a running ResourceManager, so that an oracle shows that it finds one. */
public enum Mutant {
  /** A node keeps, in its accounting, what one container in ten had. */
  LEAKED_CONTAINER("org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode", "addUnallocatedResource",
      OneInTen.class),
  /** A node keeps, in its accounting, what every container had: tests end few of them. */
  LEAKED_CONTAINERS("org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode", "addUnallocatedResource",
      Never.class),
  /** One fate in ten is not counted. */
  LOST_FATE("io.treadle.shim.metrics.ShimMetrics", "fate", OneInTen.class),
  /** The tap for a node's heartbeat throws, one time in ten. */
  ESCAPE("io.treadle.shim.mirror.Taps", "nodeUpdated", ThrowsOneInTen.class),
  /** Each container that ends leaks some memory. */
  LEAKED_MEMORY("io.treadle.shim.mirror.Taps", "containerCompleted", Keeps.class);

  private static final int TEN = 10;
  private static final int KEPT_BYTES = 50_000;
  private static final AtomicInteger CALLS = new AtomicInteger();
  private static final Queue<byte[]> KEPT = new ConcurrentLinkedQueue<>();

  private final String type;
  private final String method;
  private final Class<?> advice;

  Mutant(String type, String method, Class<?> advice) {
    this.type = type;
    this.method = method;
    this.advice = advice;
  }

  void plant(Instrumentation instrumentation) {
    new AgentBuilder.Default()
        .type(ElementMatchers.named(type))
        .transform((builder, found, loader, module, domain) ->
            builder.visit(Advice.to(advice).on(ElementMatchers.named(method))))
        .installOn(instrumentation);
  }

  /** Whether this call of a woven method is a tenth one. */
  public static boolean isTenth() {
    return CALLS.incrementAndGet() % TEN == 0;
  }

  /** Keeps some memory for good. */
  public static void keep() {
    KEPT.add(new byte[KEPT_BYTES]);
  }

  /** Each call keeps some memory. */
  public static final class Keeps {
    private Keeps() {
    }

    /** Woven in before the method. */
    @Advice.OnMethodEnter
    public static void enter() {
      Mutant.keep();
    }
  }

  /** One call in ten does nothing. */
  public static final class OneInTen {
    private OneInTen() {
    }

    /** Woven in before the method. */
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    public static boolean enter() {
      return Mutant.isTenth();
    }
  }

  /** No call does anything. */
  public static final class Never {
    private Never() {
    }

    /** Woven in before the method. */
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    public static boolean enter() {
      return true;
    }
  }

  /** One call in ten throws. */
  public static final class ThrowsOneInTen {
    private ThrowsOneInTen() {
    }

    /** Woven in before the method. */
    @Advice.OnMethodEnter
    public static void enter() {
      if (Mutant.isTenth()) {
        throw new IllegalStateException("planted");
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.shim.wire.Fate;
import java.util.Arrays;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import net.bytebuddy.matcher.ElementMatchers;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractCSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.AbstractLeafQueue;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The siege proves something: with a defect planted, in our code or in Hadoop's, it finds one. */
class HostileMutantsTest {
  private static final int ROUNDS = 60;
  private static final int PROPOSALS = 400;

  /** A defect: a method of a class, and what is woven into it while the siege runs. */
  private enum Mutant {
    LIMITS_OF_A_USER_AND_A_LEAF_ARE_NOT_CHECKED(AbstractLeafQueue.class, "accept", Yes.class),
    THE_MAXIMUM_OF_A_PARENT_IS_NOT_CHECKED(AbstractCSQueue.class, "accept", Yes.class),
    WHO_WAITS_FOR_THE_AM_LIMIT_IS_SERVED(Checks.class, "isActive", Yes.class),
    A_BLACKLIST_IS_OVERLOOKED(SchedulerApplicationAttempt.class, "isPlaceBlacklisted", No.class),
    A_PARTITION_IS_OVERLOOKED(Checks.class, "checkPartition", NoReason.class),
    STRICT_LOCALITY_IS_OVERLOOKED(Checks.class, "deriveLocality", NoReason.class),
    A_NODE_KEEPS_WHAT_A_CONTAINER_HAD(SchedulerNode.class, "addUnallocatedResource", EveryTwentieth.class),
    A_FATE_IS_LOST(CommitResult.class, "set", EveryHundredth.class);

    private final Class<?> type;
    private final String method;
    private final Class<?> advice;

    Mutant(Class<?> type, String method, Class<?> advice) {
      this.type = type;
      this.method = method;
      this.advice = advice;
    }
  }

  /** Whatever the method says, yes. */
  static final class Yes {
    @Advice.OnMethodExit
    static void exit(@Advice.Return(readOnly = false) boolean answer) {
      answer = true;
    }
  }

  /** Whatever the method says, no. */
  static final class No {
    @Advice.OnMethodExit
    static void exit(@Advice.Return(readOnly = false) boolean answer) {
      answer = false;
    }
  }

  /** Whatever the method says, there is nothing against a proposal. */
  static final class NoReason {
    @Advice.OnMethodExit
    static void exit(@Advice.Return(readOnly = false) Fate reason) {
      reason = null;
    }
  }

  /** One call in twenty does nothing. */
  static final class EveryTwentieth {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static boolean enter() {
      return Calls.isOneIn(20);
    }
  }

  /** One call in a hundred does nothing. */
  static final class EveryHundredth {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static boolean enter() {
      return Calls.isOneIn(100);
    }
  }

  /** Counts calls of a woven method. */
  public static final class Calls {
    private static int calls;

    private Calls() {
    }

    /** Whether this call is the last of so many. */
    public static synchronized boolean isOneIn(int number) {
      calls++;
      return calls % number == 0;
    }
  }

  @BeforeAll
  static void attach() {
    ByteBuddyAgent.install();
  }

  @ParameterizedTest
  @EnumSource(Mutant.class)
  void theSiegeFindsIt(Mutant mutant) throws Exception {
    assertTrue(Arrays.stream(mutant.type.getDeclaredMethods()).anyMatch(each -> each.getName().equals(mutant.method)),
        () -> mutant.type + " declares no " + mutant.method + ": nothing would be planted");
    ClassReloadingStrategy loading = ClassReloadingStrategy.fromInstalledAgent();
    new ByteBuddy().redefine(mutant.type).visit(Advice.to(mutant.advice).on(ElementMatchers.named(mutant.method)))
        .make().load(mutant.type.getClassLoader(), loading);
    try (HostileSiege siege = new HostileSiege(1)) {
      assertThrows(AssertionError.class, () -> {
        for (int round = 0; round < ROUNDS; round++) {
          siege.round(PROPOSALS);
        }
      }, "the siege goes on as if nothing were wrong");
    } finally {
      loading.reset(mutant.type);
    }
  }
}

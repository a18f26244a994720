package io.treadle.shim;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Collection;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Members of leaf queues that Hadoop moved from {@code LeafQueue} (3.3) to {@code AbstractLeafQueue} (3.4): reached
 * by method handles, so that one class file serves both.
 */
public final class LeafQueues {
  private static final String PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.";
  private static final Class<?> LEAF = leafClass();
  private static final MethodHandle ORDERING_POLICY = orderingPolicyHandle();

  private LeafQueues() {
  }

  private static Class<?> leafClass() {
    ClassLoader loader = CSQueue.class.getClassLoader();
    try {
      return Class.forName(PACKAGE + "AbstractLeafQueue", false, loader);
    } catch (ClassNotFoundException before34) {
      try {
        return Class.forName(PACKAGE + "LeafQueue", false, loader);
      } catch (ClassNotFoundException e) {
        throw new IllegalStateException("this ResourceManager has no leaf queues", e);
      }
    }
  }

  private static MethodHandle orderingPolicyHandle() {
    try {
      return MethodHandles.publicLookup()
          .findVirtual(LEAF, "getOrderingPolicy", MethodType.methodType(OrderingPolicy.class))
          .asType(MethodType.methodType(OrderingPolicy.class, CSQueue.class));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this ResourceManager's leaf queues have no ordering policy", e);
    }
  }

  /** Whether a queue is a leaf. */
  public static boolean isLeaf(CSQueue queue) {
    return LEAF.isInstance(queue);
  }

  /**
   * The order in which a leaf serves its applications.
   *
   * @param leaf a queue for which {@link #isLeaf} holds
   */
  @SuppressWarnings("unchecked")
  public static OrderingPolicy<FiCaSchedulerApp> orderingPolicy(CSQueue leaf) {
    try {
      return (OrderingPolicy<FiCaSchedulerApp>) (OrderingPolicy<?>) (OrderingPolicy) ORDERING_POLICY.invokeExact(leaf);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * The applications of a leaf that were activated: those within its AM limits and numbers of parallel applications,
   * which alone may get containers. A live view, safe to iterate over while it changes; look an application up in a
   * copy, since the order of the entries, and with it {@code contains}, changes as well.
   *
   * @param leaf a queue for which {@link #isLeaf} holds
   */
  public static Collection<FiCaSchedulerApp> active(CSQueue leaf) {
    return orderingPolicy(leaf).getSchedulableEntities();
  }
}

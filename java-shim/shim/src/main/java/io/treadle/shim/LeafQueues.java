package io.treadle.shim;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Collection;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceLimits;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Members of leaf queues that Hadoop moved from {@code LeafQueue} (3.3) to {@code AbstractLeafQueue} (3.4): looked up
 * by name once, because a reference to either class would not resolve on both lines.
 */
public final class LeafQueues {
  /** From Hadoop 3.4 on, false makes queues compute their limits in another way. */
  public static final String LEGACY_QUEUE_MODE = "yarn.scheduler.capacity.legacy-queue-mode.enabled";

  private static final String PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.";
  private static final Class<?> LEAF = leafClass();
  private static final MethodHandle ORDERING_POLICY =
      find("getOrderingPolicy", MethodType.methodType(OrderingPolicy.class));
  private static final MethodHandle ACTIVE_USER_LIMIT = find("getResourceLimitForActiveUsers",
      MethodType.methodType(Resource.class, String.class, Resource.class, String.class, SchedulingMode.class));
  private static final MethodHandle USER =
      find("getUser", MethodType.methodType(UsersManager.User.class, String.class));
  private static final MethodHandle USER_LIMIT_FACTOR =
      find("getUserLimitFactor", MethodType.methodType(float.class));
  private static final MethodHandle REFRESH = findRefresh();

  private LeafQueues() {
  }

  /** Whether a queue is a leaf: one that applications run in. */
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
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  /**
   * The applications of a leaf that were activated: those within its AM limits and numbers of parallel applications,
   * which alone may get containers. A live view for most ordering policies, a copy for others; safe to iterate over
   * while it changes. Look an application up in a copy, since the order of the entries, and with it {@code contains},
   * changes as well.
   *
   * @param leaf a queue for which {@link #isLeaf} holds
   */
  public static Collection<FiCaSchedulerApp> active(CSQueue leaf) {
    return orderingPolicy(leaf).getSchedulableEntities();
  }

  /** The limit of an active user of a leaf in a partition, the one that a commit is checked against. */
  public static Resource activeUserLimit(
      CSQueue leaf, String user, Resource cluster, String partition, SchedulingMode mode) {
    try {
      return (Resource) ACTIVE_USER_LIMIT.invokeExact(leaf, user, cluster, partition, mode);
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  /** How many times a leaf's capacity one user may get; negative for no limit. */
  public static float userLimitFactor(CSQueue leaf) {
    try {
      return (float) USER_LIMIT_FACTOR.invokeExact(leaf);
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  /** What a leaf knows of a user, or null if it has gone. */
  public static UsersManager.User user(CSQueue leaf, String user) {
    try {
      return (UsersManager.User) USER.invokeExact(leaf, user);
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  /**
   * Sets what a leaf takes as its limit when it computes headroom, and computes it afresh for its applications.
   *
   * @param limits the limit; the leaf lowers it to its own maximum
   * @param legacy whether the queues work as before Hadoop 3.4 ({@link #LEGACY_QUEUE_MODE})
   */
  public static void setLimitForHeadroom(CSQueue leaf, Resource cluster, ResourceLimits limits, boolean legacy) {
    if (legacy || REFRESH == null) {
      leaf.updateClusterResource(cluster, limits);
      return;
    }
    try {
      // updateClusterResource would start from the parent here, and with it take off what siblings use
      REFRESH.invokeExact(leaf, cluster, limits);
    } catch (Throwable e) {
      throw rethrown(e);
    }
  }

  private static Class<?> leafClass() {
    ClassLoader loader = CSQueue.class.getClassLoader();
    try {
      return Class.forName(PACKAGE + "AbstractLeafQueue", false, loader);
    } catch (ClassNotFoundException beforeHadoop34) {
      try {
        return Class.forName(PACKAGE + "LeafQueue", false, loader);
      } catch (ClassNotFoundException e) {
        throw new IllegalStateException("this ResourceManager has no leaf queues", e);
      }
    }
  }

  /** A method of a leaf, to be called with a {@code CSQueue} as its first argument. */
  private static MethodHandle find(String name, MethodType type) {
    try {
      return MethodHandles.publicLookup().findVirtual(LEAF, name, type)
          .asType(type.insertParameterTypes(0, CSQueue.class));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this ResourceManager's " + LEAF.getSimpleName() + " has no " + name + type, e);
    }
  }

  /** Null before Hadoop 3.4. */
  private static MethodHandle findRefresh() {
    try {
      return MethodHandles.publicLookup().findVirtual(CSQueue.class, "refreshAfterResourceCalculation",
          MethodType.methodType(void.class, Resource.class, ResourceLimits.class));
    } catch (ReflectiveOperationException e) {
      return null;
    }
  }

  private static RuntimeException rethrown(Throwable e) {
    if (e instanceof Error) {
      throw (Error) e;
    }
    return e instanceof RuntimeException ? (RuntimeException) e : new IllegalStateException(e);
  }
}

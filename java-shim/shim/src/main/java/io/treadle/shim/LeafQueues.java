// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceLimits;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.SchedulingMode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FairOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.IteratorSelector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Members of leaf queues that Hadoop moved from {@code LeafQueue} (3.3) to {@code AbstractLeafQueue} (3.4): looked up
 * by name once, because a reference to either class would not resolve on both lines. What the running Hadoop lacks is
 * null here; {@link #missing} names it.
 */
public final class LeafQueues {
  private static final String PACKAGE = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.";
  /** In front of all that fills it. */
  private static final List<String> MISSING = new ArrayList<>();
  private static final Class<?> LEAF = leafClass();
  private static final MethodHandle ORDERING_POLICY =
      find("getOrderingPolicy", MethodType.methodType(OrderingPolicy.class));
  private static final MethodHandle ACTIVE_USER_LIMIT = find("getResourceLimitForActiveUsers",
      MethodType.methodType(Resource.class, String.class, Resource.class, String.class, SchedulingMode.class));
  private static final MethodHandle USER =
      find("getUser", MethodType.methodType(UsersManager.User.class, String.class));
  private static final MethodHandle USER_LIMIT_FACTOR =
      find("getUserLimitFactor", MethodType.methodType(float.class));

  private LeafQueues() {
  }

  /** The members that the running Hadoop lacks, by name, and no mode can do without. */
  public static List<String> missing() {
    return MISSING;
  }

  /** The members that the running Hadoop lacks, by name, of those that {@link #limit} and {@link #setLimit} use. */
  public static List<String> missingLimits() {
    return Limits.MISSING;
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

  /** Whether a leaf offers the nodes of all partitions to all its {@link #active} applications. */
  public static boolean offersAll(CSQueue leaf) {
    Class<?> policy = orderingPolicy(leaf).getClass();
    return policy == FifoOrderingPolicy.class || policy == FairOrderingPolicy.class;
  }

  /**
   * The applications that the stock scheduler would look at for a node of a partition: {@code fifo-with-partitions}
   * leaves out those of other partitions.
   */
  public static Set<FiCaSchedulerApp> offered(CSQueue leaf, String partition) {
    IteratorSelector selector = new IteratorSelector();
    selector.setPartition(partition);
    Set<FiCaSchedulerApp> offered = Collections.newSetFromMap(new IdentityHashMap<>());
    orderingPolicy(leaf).getAssignmentIterator(selector).forEachRemaining(offered::add);
    return offered;
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

  /** The limit of a leaf that its AM limit follows: what it uses and what is left for it in the default partition. */
  public static Resource limit(CSQueue leaf) {
    try {
      Object info = Limits.INFO.get(leaf);
      synchronized (info) {
        return (Resource) Limits.GET.invoke(info);
      }
    } catch (ReflectiveOperationException e) {
      throw rethrown(e);
    }
  }

  /**
   * Sets a leaf's limit as a native pass does, and activates the applications that its AM limit then has room for. The
   * caller holds the scheduler's write lock.
   *
   * @param limit not above the leaf's own maximum
   */
  public static void setLimit(CSQueue leaf, Resource cluster, Resource limit) {
    try {
      Limits.LAST.set(leaf, new ResourceLimits(limit));
      Object info = Limits.INFO.get(leaf);
      synchronized (info) {
        Limits.SET.invoke(info, limit);
        Limits.SET_CLUSTER.invoke(info, cluster);
      }
      Limits.ACTIVATE.invoke(leaf);
    } catch (ReflectiveOperationException e) {
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
        return CSQueue.class; // which has none of the members
      }
    }
  }

  /** A method of a leaf, to be called with a {@code CSQueue} as its first argument. */
  private static MethodHandle find(String name, MethodType type) {
    try {
      return MethodHandles.publicLookup().findVirtual(LEAF, name, type)
          .asType(type.insertParameterTypes(0, CSQueue.class));
    } catch (ReflectiveOperationException | LinkageError e) {
      MISSING.add(LEAF.getSimpleName() + "." + name + type);
      return null;
    }
  }

  private static RuntimeException rethrown(Throwable thrown) {
    Throwable e = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
    if (e instanceof Error) {
      throw (Error) e;
    }
    return e instanceof RuntimeException ? (RuntimeException) e : new IllegalStateException(e);
  }

  /**
   * Members that are not public: nothing else of Hadoop's sets a leaf's limit and does no more. The limit is kept
   * twice, as a native pass got it last, and as the leaf's AM limit follows it. Only {@code enforce} sets it.
   */
  private static final class Limits {
    private static final List<String> MISSING = new ArrayList<>();
    private static final Field LAST = field("cachedResourceLimitsForHeadroom");
    private static final Field INFO = field("queueResourceLimitsInfo");
    private static final Class<?> INFO_CLASS = INFO == null ? LEAF : INFO.getType();
    private static final Method GET = method(INFO_CLASS, "getQueueCurrentLimit");
    private static final Method SET = method(INFO_CLASS, "setQueueCurrentLimit", Resource.class);
    private static final Method SET_CLUSTER = method(INFO_CLASS, "setClusterResource", Resource.class);
    private static final Method ACTIVATE = method(LEAF, "activateApplications");

    private static Field field(String name) {
      try {
        Field field = LEAF.getDeclaredField(name);
        field.setAccessible(true);
        return field;
      } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
        MISSING.add(LEAF.getSimpleName() + "." + name);
        return null;
      }
    }

    private static Method method(Class<?> owner, String name, Class<?>... parameters) {
      try {
        Method method = owner.getDeclaredMethod(name, parameters);
        method.setAccessible(true);
        return method;
      } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
        MISSING.add(owner.getSimpleName() + "." + name);
        return null;
      }
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.hadoop.thirdparty.com.google.common.base.Throwables;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceLimits;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.UsersManager;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FairOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.IteratorSelector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.OrderingPolicy;

/**
 * Leaf queues, whose class Hadoop renamed from {@code LeafQueue} (3.3) to {@code AbstractLeafQueue} (3.4): a reference
 * to either would not resolve on both lines, so that members that no common type has are looked up by name, once. What
 * the running Hadoop lacks is null here; {@link #missing} names it. Nothing else of Hadoop's sets a leaf's limit and
 * does no more than the members that are not public. The limit is kept twice, as a native pass got it last, and as the
 * leaf's AM limit follows it.
 */
public final class LeafQueues {
  // in front of all that fills them
  private static final List<String> MISSING = new ArrayList<>();
  private static final Class<?> LEAF = leafClass();
  private static final Method ORDERING_POLICY = method(LEAF, "getOrderingPolicy");
  private static final Field LAST_LIMIT = field("cachedResourceLimitsForHeadroom");
  private static final Field LIMIT = field("queueResourceLimitsInfo");
  private static final Method GET_LIMIT = method(LIMIT == null ? LEAF : LIMIT.getType(), "getQueueCurrentLimit");
  private static final Method TAKE_LAST_LIMIT = method(LEAF, "setQueueResourceLimitsInfo", Resource.class);
  private static final Method ACTIVATE = method(LEAF, "activateApplications");

  private LeafQueues() {
  }

  /** The members that the running Hadoop lacks, by name. */
  public static List<String> missing() {
    return MISSING;
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
    return (OrderingPolicy<FiCaSchedulerApp>) reflect(() -> ORDERING_POLICY.invoke(leaf));
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

  /**
   * The applications that the stock scheduler would look at for a node of a partition: {@code fifo-with-partitions}
   * leaves out those of other partitions. Empty for all that are {@link #active}.
   */
  public static Optional<Set<FiCaSchedulerApp>> offered(CSQueue leaf, String partition) {
    OrderingPolicy<FiCaSchedulerApp> policy = orderingPolicy(leaf);
    if (policy.getClass() == FifoOrderingPolicy.class || policy.getClass() == FairOrderingPolicy.class) {
      return Optional.empty();
    }
    IteratorSelector selector = new IteratorSelector();
    selector.setPartition(partition);
    Set<FiCaSchedulerApp> offered = Collections.newSetFromMap(new IdentityHashMap<>());
    policy.getAssignmentIterator(selector).forEachRemaining(offered::add);
    return Optional.of(offered);
  }

  /** The users of a leaf with their usage and their limits, which a commit is checked against. */
  public static UsersManager users(CSQueue leaf) {
    return (UsersManager) leaf.getAbstractUsersManager();
  }

  /** The limit of a leaf behind its AM limit: its usage and the rest available to it in the default partition. */
  public static Resource limit(CSQueue leaf) {
    Object limit = reflect(() -> LIMIT.get(leaf));
    synchronized (limit) {
      return (Resource) reflect(() -> GET_LIMIT.invoke(limit));
    }
  }

  /**
   * Sets a leaf's limit as a native pass does, and activates the applications that its AM limit then has room for. The
   * caller holds the scheduler's write lock.
   *
   * @param limit not above the leaf's own maximum
   */
  public static void setLimit(CSQueue leaf, Resource cluster, Resource limit) {
    reflect(() -> {
      LAST_LIMIT.set(leaf, new ResourceLimits(limit));
      TAKE_LAST_LIMIT.invoke(leaf, cluster);
      return ACTIVATE.invoke(leaf);
    });
  }

  private static Class<?> leafClass() {
    try {
      return FiCaSchedulerApp.class.getMethod("getCSLeafQueue").getReturnType();
    } catch (ReflectiveOperationException | LinkageError e) {
      return CSQueue.class; // which has none of the members
    }
  }

  private static Field field(String name) {
    return found(name, () -> LEAF.getDeclaredField(name));
  }

  private static Method method(Class<?> owner, String name, Class<?>... parameters) {
    return found(name, () -> owner.getDeclaredMethod(name, parameters));
  }

  private static <M extends AccessibleObject> M found(String name, Callable<M> search) {
    try {
      M member = search.call();
      member.setAccessible(true);
      return member;
    } catch (Exception | LinkageError e) {
      MISSING.add(LEAF.getSimpleName() + "." + name);
      return null;
    }
  }

  private static Object reflect(Callable<Object> access) {
    try {
      return access.call();
    } catch (Exception e) {
      Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
      Throwables.throwIfUnchecked(cause);
      throw new IllegalStateException(cause);
    }
  }
}

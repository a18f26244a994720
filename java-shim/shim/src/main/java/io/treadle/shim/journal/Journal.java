package io.treadle.shim.journal;

import io.treadle.shim.wire.Fate;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * What changed since the last frame. Any thread marks, the link thread drains. A mark is an insertion into a small
 * set under a lock that is never held for longer, so that no RM thread waits. Marks name what changed, never how: the
 * mirror reads the truth when it writes the frame. Bounded: when more is marked than fits, everything is forgotten
 * and a snapshot asked for, and until that is drained marking costs next to nothing (so a journal that nobody drains
 * does no harm).
 */
public final class Journal {
  private final int capacity;
  private final Object lock = new Object();
  private volatile boolean snapshotNeeded = true;
  private Changes changes = new Changes();
  private Runnable onMark = () -> { };
  private boolean woken;

  /**
   * A new journal, which asks for a snapshot first.
   *
   * @param capacity the most marks that are kept between two frames, at least 1
   */
  public Journal(int capacity) {
    if (capacity < 1) {
      throw new IllegalArgumentException("a journal's capacity must be at least 1, not " + capacity);
    }
    this.capacity = capacity;
  }

  /** A node came, went, or has other resources, another state or partition, or a reservation. */
  public void nodeChanged(NodeId node) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.nodes.add(node);
        marked();
      }
    }
  }

  /** Somebody else than the engine has committed on a node. */
  public void committedByOthers(NodeId node) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.othersCommits.merge(node, 1, Integer::sum);
        marked();
      }
    }
  }

  /** The nodes on some hosts have other attributes. */
  public void attributesChanged(Set<String> hosts) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.attributes.addAll(hosts);
        marked();
      }
    }
  }

  /** Any number of nodes may have changed. */
  public void nodesChanged() {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.allNodes = true;
        marked();
      }
    }
  }

  /** An application or its attempt came, went, or changed its state, queue or priority. */
  public void applicationChanged(ApplicationId application) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.applications.add(application);
        marked();
      }
    }
  }

  /** An application's requests changed otherwise than by an allocation. */
  public void asksChanged(ApplicationId application) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.asks.add(application);
        marked();
      }
    }
  }

  /**
   * The RM is about to give requests of a container that its application never saw back to it: as {@link
   * #asksChanged}, and looked at once more a little later, since the requests may come back only after this mark was
   * drained.
   */
  public void asksComeBack(ApplicationId application) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.asks.add(application);
        changes.asksLater.add(application);
        marked();
      }
    }
  }

  /** An application changed its blacklist. */
  public void blacklistChanged(ApplicationId application) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.blacklists.add(application);
        marked();
      }
    }
  }

  /** What an application uses changed otherwise than by a {@link #container} step. */
  public void usageChanged(ApplicationId application) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.usages.add(application);
        marked();
      }
    }
  }

  /** The queues, their configuration or the cluster's size changed. */
  public void queuesChanged() {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.queues = true;
        marked();
      }
    }
  }

  /** A container's life went on: its node, its application's usage and the request at its key changed, too. */
  public void container(ContainerStep step) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.steps.add(step);
        marked();
      }
    }
  }

  /**
   * What became of a proposal.
   *
   * @param sequence the frame that the engine answered
   * @param position the proposal's place in the answer
   * @param fate committed, or why not
   */
  public void fate(long sequence, int position, Fate fate) {
    if (!snapshotNeeded) {
      synchronized (lock) {
        changes.fates.add(sequence, position, fate);
        marked();
      }
    }
  }

  /** Forgets all marks and asks for a snapshot. */
  public void snapshotNeeded() {
    synchronized (lock) {
      snapshotNeeded = true;
      changes = new Changes();
      wake();
    }
  }

  /** Whether the next frame has to be a snapshot. */
  public boolean isSnapshotNeeded() {
    return snapshotNeeded;
  }

  /** Takes all marks, for the link thread; marks made from now on are for the next frame. */
  public Changes drain() {
    synchronized (lock) {
      Changes drained = changes;
      drained.snapshot = snapshotNeeded;
      changes = new Changes();
      snapshotNeeded = false;
      woken = false;
      return drained;
    }
  }

  /**
   * Has {@code reader} run at the first mark after each {@link #drain}, on the thread that marks and under the lock: it
   * must return at once and not throw.
   */
  public void onMark(Runnable reader) {
    synchronized (lock) {
      onMark = reader;
    }
  }

  private void marked() {
    if (changes.size() > capacity) {
      snapshotNeeded();
    }
    wake();
  }

  private void wake() {
    if (!woken) {
      woken = true;
      onMark.run();
    }
  }
}

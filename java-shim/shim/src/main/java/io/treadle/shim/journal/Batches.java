package io.treadle.shim.journal;

import java.util.ArrayList;
import java.util.List;

/**
 * What a journal was drained into, from the oldest batch that a feed has not taken to the newest. A feed that takes drains,
 * so that marks are copied nowhere while there is one feed, and for those that lag only when they come. A batch is kept as
 * long as a feed has it before it; the marks kept for one, and their batches, have a bound. Threads of the RM never
 * come here.
 */
final class Batches {
  /** The most batches that are kept: at one each five milliseconds, what comes in 20 seconds. */
  static final int KEPT_MAX = 4096;

  private final Journal journal;
  private final int marksMax;
  /** Those for which batches are kept. */
  private final List<Feed> feeds = new ArrayList<>();
  /** What is drained next, empty as yet. */
  private Batch end = new Batch(0, 0);

  Batches(Journal journal, int marksMax) {
    this.journal = journal;
    this.marksMax = marksMax;
  }

  /** A batch, and how many batches and marks came before it. */
  static final class Batch {
    private final long number;
    private final long marks;
    private Changes changes;
    private Batch next;

    Batch(long number, long marks) {
      this.number = number;
      this.marks = marks;
    }
  }

  synchronized Changes take(Feed feed) {
    Changes drained = journal.drain();
    if (drained.forgotten) {
      feeds.forEach(each -> each.next = null);
      feeds.clear();
    } else if (!drained.isEmpty()) {
      append(drained);
    }
    Batch first = feed.next;
    if (first == null) {
      feeds.add(feed);
    }
    feed.next = end;
    dropLaggards();
    return first == null ? Changes.EVERYTHING : first == end ? drained : together(first);
  }

  private void append(Changes drained) {
    drained.addNodesOfSteps();
    Batch after = new Batch(end.number + 1, end.marks + drained.size());
    end.changes = drained;
    end.next = after;
    end = after;
  }

  private void dropLaggards() {
    feeds.removeIf(feed -> {
      boolean lags = end.number - feed.next.number > KEPT_MAX || end.marks - feed.next.marks > marksMax;
      if (lags) {
        feed.next = null;
      }
      return lags;
    });
  }

  private Changes together(Batch first) {
    if (first.next == end) {
      return first.changes;
    }
    Changes all = new Changes();
    for (Batch batch = first; batch != end; batch = batch.next) {
      all.add(batch.changes);
    }
    return all;
  }

  synchronized void leave(Feed feed) {
    feeds.remove(feed);
    feed.next = null;
    if (feeds.isEmpty()) {
      journal.forget();
    }
  }
}

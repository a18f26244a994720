// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.EngineView;
import io.treadle.shim.journal.Changes;
import io.treadle.shim.journal.ContainerStep;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;

/**
 * The sections of a mirror that show the scheduler, together: which of them look at what when something changed, and
 * what each of them writes in a snapshot. Used by the link thread only.
 */
final class Sections {
  /** When requests that the RM gives back are looked at for the second time. */
  private static final long ASKS_LATER_MS = 200;
  /** So many request keys are looked at in turns a frame, on average; the other applications that are due wait. */
  private static final int SWEPT_KEYS = 1000;

  final NodeSection nodes;
  final ApplicationSection applications;
  final KeySection keys = new KeySection();
  final ClusterSection cluster = new ClusterSection();
  private final QueueSection queues = new QueueSection();
  private final QueueLimitsSection limits = new QueueLimitsSection();
  private final UserSection users = new UserSection();
  private final UsageSection usages = new UsageSection(queues);
  private final RequestSection requests;
  private final BlacklistSection blacklists;
  private final ContainerSection containers;
  private final Sweep applicationSweep;
  private final Sweep headroomSweep = new Sweep(100);
  private final Set<ApplicationId> asksLater = new HashSet<>();
  /** Whose requests and blacklists wait until their users may change more, in turns. */
  private final Set<ApplicationSection.Row> late = new LinkedHashSet<>();
  private final EngineView view;
  private long asksLaterMs;
  private int keysLeft;
  private FrameOptions lastOptions;

  Sections(MirrorSettings settings, EngineView view) {
    this.view = view;
    applications = new ApplicationSection(settings.ofUser, queues, users, view);
    nodes = new NodeSection(settings, view);
    requests = new RequestSection(nodes, view);
    blacklists = new BlacklistSection(nodes);
    containers = new ContainerSection(nodes);
    applicationSweep = new Sweep(settings.applicationReviewMs);
  }

  /** Forgets what was sent, so that nothing of the scheduler's is kept in memory. */
  void reset() {
    forget();
    applications.reset();
    nodes.reset();
    queues.reset();
    limits.reset();
  }

  /** What a snapshot has anew, but for what its own section forgets when it writes it. */
  private void forget() {
    asksLater.clear();
    late.clear();
    users.reset();
    requests.reset();
    usages.reset();
  }

  /** Forgets what was sent and writes everything. */
  void snapshot(Draft draft, FrameOptions frameOptions) {
    forget();
    applicationSweep.reset(draft.monotonicMs);
    headroomSweep.reset(draft.monotonicMs);
    cluster.snapshot(draft, frameOptions);
    queues.reset();
    nodes.snapshot(draft);
    for (ApplicationSection.Row row : applications.snapshot(draft)) {
      writeAll(draft, row);
      containers.writeLive(draft, row, true);
    }
    applications.refill();
    containers.keepOnly(draft.scheduler.getSchedulerApplications().keySet());
    queues.update(draft);
    limits.review(draft, queues.rows());
    finish(draft);
    lastOptions = frameOptions;
  }

  private void writeAll(Draft draft, ApplicationSection.Row row) {
    review(draft, row);
    blacklists.writeTags(draft, row);
    keys.review(draft, row);
    usages.touch(row);
    users.touch(row.queue);
    limits.touch(queues.row(row.queue));
  }

  /** Writes what changed. */
  void delta(Draft draft, Changes changes, FrameOptions frameOptions) {
    nodes.update(draft, changes.nodes(), changes.attributes(), changes.allNodes());
    if (nodes.takeNewPlaces()) {
      applications.rows().stream().filter(row -> row.unknownPlaces).forEach(late::add);
    }
    applications.begin();
    for (ApplicationId id : changes.applications()) {
      reviewApplication(draft, id);
    }
    // after those that have gone: nothing may follow the row that says so
    reviewLate(draft);
    changes.steps().forEach(step -> take(draft, step));
    requests.writePlaced(draft).forEach(row -> review(draft, row));
    changes.asks().forEach(id -> reviewAsks(draft, id));
    laterAsks(draft, changes.asksLater());
    changes.usages().forEach(id -> touch(id));
    settle(draft, changes);
    sweep(draft);
    reviewQueues(draft, changes, frameOptions);
    finish(draft);
    lastOptions = frameOptions;
  }

  private void finish(Draft draft) {
    users.update(draft, queues);
    usages.update(draft);
    applications.write(draft);
  }

  private void reviewApplication(Draft draft, ApplicationId id) {
    ApplicationSection.Row before = applications.row(id);
    CSQueue from = before == null ? null : before.queue;
    ApplicationSection.Row fresh = applications.review(draft, id);
    if (before != null && !before.lives()) {
      requests.forget(before);
    } else if (from != null && from != before.queue) {
      limits.touch(queues.row(from));
      touch(before);
    }
    if (fresh != null) {
      writeAll(draft, fresh);
      containers.writeLive(draft, fresh, false);
    } else if (!draft.scheduler.getSchedulerApplications().containsKey(id)) {
      containers.forget(id);
    }
  }

  private void take(Draft draft, ContainerStep step) {
    ApplicationAttemptId attempt = step.container.getApplicationAttemptId();
    ApplicationSection.Row row = applications.row(attempt.getApplicationId());
    containers.write(draft, step, row);
    if (row != null) {
      if (step.kind == ContainerStep.Kind.ALLOCATED) {
        requests.placed(row, step.requestKey, step.node);
      }
      if (step.kind != ContainerStep.Kind.LAUNCHED) {
        touch(row);
      }
    }
  }

  private void touch(ApplicationId id) {
    ApplicationSection.Row row = applications.row(id);
    if (row != null) {
      touch(row);
    }
  }

  private void touch(ApplicationSection.Row row) {
    usages.touch(row);
    users.touch(row.queue);
    limits.touch(queues.row(row.queue));
  }

  private void reviewAsks(Draft draft, ApplicationId id) {
    ApplicationSection.Row row = applications.row(id);
    if (row != null) {
      review(draft, row);
      users.touch(row.queue);
      limits.touch(queues.row(row.queue));
    }
  }

  /** Looks at an application's requests and blacklist, now or when its user may change more. */
  private void review(Draft draft, ApplicationSection.Row row) {
    if (!draft.snapshot && !row.budget.isReady(draft.monotonicMs)) {
      if (!row.reviewed) {
        view.keys(row.app.getApplicationAttemptId(), 0);
      }
      late.add(row);
      return;
    }
    row.reviewed = true;
    row.late = false;
    row.unknownPlaces = false;
    requests.review(draft, row);
    if (!row.awaitingAm || row.blacklistDue) {
      blacklists.review(draft, row);
      row.blacklistDue = row.late;
    }
    row.reportCaps(draft);
    if (row.late) {
      late.add(row);
    }
  }

  private void reviewLate(Draft draft) {
    List<ApplicationSection.Row> turns = new ArrayList<>(late);
    late.clear();
    for (ApplicationSection.Row row : turns) {
      if (row.lives()) {
        review(draft, row);
      }
    }
  }

  private void laterAsks(Draft draft, Set<ApplicationId> marked) {
    if (!asksLater.isEmpty() && draft.monotonicMs - asksLaterMs >= ASKS_LATER_MS) {
      asksLater.forEach(id -> reviewAsks(draft, id));
      asksLater.clear();
    }
    if (!marked.isEmpty()) {
      asksLater.addAll(marked);
      asksLaterMs = draft.monotonicMs;
    }
  }

  private void settle(Draft draft, Changes changes) {
    List<ApplicationSection.Row> gotAm = new ArrayList<>();
    applications.settle(draft, gotAm);
    gotAm.forEach(row -> reviewBlacklist(draft, row));
    for (ApplicationId id : changes.blacklists()) {
      ApplicationSection.Row row = applications.row(id);
      if (row != null) {
        reviewBlacklist(draft, row);
      }
    }
  }

  private void reviewBlacklist(Draft draft, ApplicationSection.Row row) {
    row.blacklistDue = true;
    review(draft, row);
  }

  private void sweep(Draft draft) {
    int size = applications.size();
    applications.dropIdle(draft.monotonicMs);
    keysLeft = Math.min(SWEPT_KEYS, keysLeft + SWEPT_KEYS);
    for (int left = applicationSweep.due(size, draft.monotonicMs); left > 0 && keysLeft > 0; left--) {
      ApplicationSection.Row row = applications.row(applicationSweep.next(size));
      if (row != null && row.lives()) {
        reviewApplication(draft, row.app.getApplicationId());
        if (row.lives()) {
          containers.review(draft, row).forEach(step -> take(draft, step));
          review(draft, row);
          keysLeft -= row.keys.size();
          keys.review(draft, row);
          usages.touch(row);
        }
      }
    }
    for (int left = headroomSweep.due(size, draft.monotonicMs); left > 0; left--) {
      ApplicationSection.Row row = applications.row(headroomSweep.next(size));
      if (row != null && row.askingKeys > 0) {
        usages.touch(row);
      }
    }
  }

  private void reviewQueues(Draft draft, Changes changes, FrameOptions frameOptions) {
    if (changes.queues()) {
      queues.markChanged();
    }
    boolean walked = queues.update(draft);
    if (walked || frameOptions.config != lastOptions.config) {
      cluster.update(draft, frameOptions);
    }
    if (walked) {
      limits.review(draft, queues.rows());
      users.keepOnly(queues);
      queues.rows().stream().filter(row -> row.leaf).forEach(row -> users.touch(row.queue));
    } else {
      limits.update(draft);
    }
  }

  /** How many indices were given out, those of texts left out. */
  int indices() {
    return nodes.size() + applications.size() + requests.size() + queues.size();
  }
}

"""Fair-finish: jobs in the order in which fair sharing would finish them, with sizes by total time on test.

**Order** (FSP, Friedman and Henderson 2003; PSBS, Dell'Amico et al. 2014): each leaf has a virtual system in which its
jobs share the leaf equally. The job that finishes first there is served first. A job that has finished there but not in
reality is larger than estimated: such late jobs precede all others and share fairly.

**Estimate**: the task duration is (task time so far + weight x prior) / (ended tasks + weight), the estimator for
durations with censoring of the running tasks. A drop in requested plus running containers counts as ended tasks, which
includes tasks in reused containers that the RM does not see. The prior is learned from finished jobs.

Spark executors are not tasks: they stay until they idle. Spark applications have no size and share fairly: up to an
equal share of the leaf they precede jobs with sizes, beyond that they follow them.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from math import exp, inf, log, nan
from typing import Annotated, Final, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from treadle.compiled.array_types import F64, I32, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.config.parts import Parameters
from treadle.events import ApplicationState, LearnedState, Samples
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.model.tables import GUARANTEED, ModelError, Table, View
from treadle.policy.parts import ACTIVE, BY_DURATIONS, Estimate, Keeper, Order
from treadle.policy.work import Durations, Jobs, demand_of, hinted_durations, or_default

JOB: Final = np.dtype(
    [
        ("tested_ms", "f8"),  # task time so far, in ms
        ("ended", "f8"),  # ended tasks
        ("open", "f8"),  # requested and running tasks at the last update
        ("running", "f8"),  # running ones of these
        ("rate", "f8"),  # their usage: shares of the cluster, summed over the resources
        ("service_ms", "f8"),  # its integral over time
        ("size_ms", "f8"),  # attained plus remaining service, as last estimated
        ("virtual_ms", "f8"),  # remaining service in the virtual system; infinite: no size
        ("prior", "f8"),  # correction of the log task time by name and user
        ("general", "f8"),  # weight of that relative to the size class's mean; 0: new application
        ("cluster_timestamp", "i8"),
        ("id", "i4"),
        ("attempt", "i4"),
    ],
    align=True,
)
"""Estimator state of an application."""

WHICH: Final = ("cluster_timestamp", "id", "attempt")
"""The columns that identify a row's application."""
CLASSES: Final = np.array([1.0, 10.0, 100.0, 1000.0])
"""Upper bound of the number of tasks in each size class except the last."""
CLASS_WEIGHT: Final = 3.0
USER_WEIGHT: Final = 2.0
NAME_WEIGHT: Final = 1.0
"""Weight of the coarser mean, in jobs, against the jobs of a class, a user or a name."""
NAMES_MAX: Final = 10_000
"""Maximum number of remembered users and names; the oldest are dropped."""
NAME_CHARS_MAX: Final = 200
"""A longer name is remembered by its digest: the file of all names stays small."""
ENDED: Final = 1
NEW: Final = 2
"""Changes of an application since the last cycle."""
GONE: Final = int(ApplicationState.GONE)
GHOSTS_MAX: Final = 10_000
"""Maximum number of jobs that have finished in reality but not in a virtual system."""
ENDLESS: Final = "SPARK"
"""The application type whose containers are not tasks."""


@kernel
def measure_progress(view: View, jobs: Records, which: I32, totals: F64, elapsed_ms: float, changes: U8) -> int:
    """Update the progress of known active applications; AMs are not tasks.

    Set which applications have ended since the last cycle and which are new, and return their number.
    """
    changed = 0
    for at in range(len(which)):
        app = which[at]
        seen = jobs[app].general > 0.0 and jobs[app].id == view.apps[app].id
        seen = seen and jobs[app].attempt == view.apps[app].attempt  # an index may belong to a new application
        seen = seen and jobs[app].cluster_timestamp == view.apps[app].cluster_timestamp
        gone = view.apps[app].state == GONE
        changes[at] = ENDED if gone and seen else NEW if not gone and not seen else 0
        changed += changes[at] > 0
        if gone:
            jobs[app].general = 0.0
        elif seen and view.apps[app].state == ACTIVE:
            measure(view, jobs, app, totals, elapsed_ms)
    return changed


@inner
def measure(view: View, jobs: Records, app: int, totals: F64, elapsed_ms: float) -> None:
    """Update the progress of an application."""
    asked, running, rate = 0.0, 0.0, 0.0
    row = -1 if view.apps[app].awaiting_am else view.apps[app].first_row
    while row >= 0:
        asked += view.rows[row].count
        row = view.rows[row].next
    group = view.apps[app].first_group
    while group >= 0:
        if view.groups[group].running > 0:
            running += view.groups[group].running
            rate += demand_of(view.group_amounts, group, totals)
        group = view.groups[group].next
    jobs[app].tested_ms += jobs[app].running * elapsed_ms
    jobs[app].service_ms += jobs[app].rate * elapsed_ms
    jobs[app].ended += max(jobs[app].open - asked - running, 0.0)
    jobs[app].open, jobs[app].running, jobs[app].rate = asked + running, running, rate


@inner
def task_ms(jobs: Records, app: int, classes: F64, of_class: F64, weight: float) -> float:
    """Return the task duration of an application by total time on test, in ms."""
    size_class = 0
    while size_class < len(classes) and jobs[app].ended + jobs[app].open > classes[size_class]:
        size_class += 1
    prior = jobs[app].prior + jobs[app].general * of_class[size_class]
    return float((jobs[app].tested_ms + weight * exp(prior)) / (jobs[app].ended + weight))


@kernel
def durations_on_test(
    view: View, jobs: Records, classes: F64, of_class: F64, weight: float, each_ms: F64, found: Durations
) -> None:
    """Set the durations of requested and running tasks, NaN where the application is not measured yet.

    ``each_ms`` takes the task duration of each application.
    """
    for app in range(len(jobs)):
        each_ms[app] = task_ms(jobs, app, classes, of_class, weight) if jobs[app].general > 0.0 else nan
    for row in range(found.rows):
        app = view.rows[row].application
        if 0 <= app < len(jobs):
            found.rows_ms[row] = each_ms[app]
    for group in range(found.groups):
        app = view.groups[group].application
        if 0 <= app < len(jobs):
            found.groups_ms[group] = each_ms[app]


@inner
def left_ms(view: View, app: int, durations: Durations, totals: F64) -> float:
    """Return the remaining service of an application; a running task counts as much as one that starts."""
    left = 0.0
    row = -1 if view.apps[app].awaiting_am else view.apps[app].first_row
    while row >= 0:
        each_ms = or_default(durations.rows_ms[row], durations.default_ms)
        left += view.rows[row].count * each_ms * demand_of(view.capability, row, totals)
        row = view.rows[row].next
    group = view.apps[app].first_group
    while group >= 0:
        if view.groups[group].running > 0:
            each_ms = or_default(durations.groups_ms[group], durations.default_ms)
            left += each_ms * demand_of(view.group_amounts, group, totals)
        group = view.groups[group].next
    return left


@inner
def served(jobs: Records, apps: I32, ghosts: F64, budget: float) -> float:
    """Return the maximum that each virtual job gets when all share ``budget`` equally."""
    level = 0.0
    while budget > 0.0:
        alive = 0
        for app in apps:
            alive += jobs[app].virtual_ms > level
        for ghost in ghosts:
            alive += ghost > level
        if alive == 0:
            break
        more, spent = level + budget / alive, 0.0
        whole = True
        for app in apps:
            if jobs[app].virtual_ms > level:
                spent += min(jobs[app].virtual_ms, more) - level
                whole = whole and jobs[app].virtual_ms >= more
        for at in range(len(ghosts)):
            if ghosts[at] > level:
                spent += min(ghosts[at], more) - level
                whole = whole and ghosts[at] >= more
        level = more
        budget = 0.0 if whole else budget - spent
    return level


@inner
def advance(
    view: View,
    jobs: Records,
    leaf_first: I32,
    leaf_apps: I32,
    ghosts: F64,
    first_ghost: I32,
    totals: F64,
    elapsed_ms: float,
) -> None:
    """Advance the virtual system of each leaf: its jobs and the ghosts (finished in reality only) share the leaf.

    The capacity of a leaf is its guarantee, or its usage if larger. ``ghosts`` are sorted by leaf; those of a leaf
    start at ``first_ghost``.
    """
    for leaf in range(len(leaf_first) - 1):
        apps = leaf_apps[leaf_first[leaf] : leaf_first[leaf + 1]]
        gone = ghosts[first_ghost[leaf] : first_ghost[leaf + 1]]
        if len(apps) + len(gone) == 0:
            continue
        used, rate = 0.0, 0.0
        for app in apps:
            used += jobs[app].rate
        for r in range(len(totals)):
            guaranteed = 0.0
            for partition in range(view.limit_amounts.shape[1]):
                guaranteed += view.limit_amounts[leaf, partition, GUARANTEED, r]
            if totals[r] > 0.0:
                rate += min(guaranteed / totals[r], 1.0)
        rate = max(rate, used)
        level = served(jobs, apps, gone, rate * elapsed_ms)
        for app in apps:
            jobs[app].virtual_ms = max(jobs[app].virtual_ms - level, 0.0)
        for at in range(len(gone)):
            gone[at] = max(gone[at] - level, 0.0)


@inner
def resize(view: View, jobs: Records, which: I32, durations: Durations, totals: F64, endless: int) -> None:
    """Apply new size estimates; the remaining virtual service changes by the difference."""
    for app in which:
        if view.apps[app].state != ACTIVE:
            continue
        if view.apps[app].type == endless:
            jobs[app].virtual_ms = inf
            continue
        size_ms = jobs[app].service_ms + left_ms(view, app, durations, totals)
        jobs[app].virtual_ms = max(jobs[app].virtual_ms + size_ms - jobs[app].size_ms, 0.0)
        jobs[app].size_ms = size_ms


@inner
def rank(view: View, jobs: Records, leaf_first: I32, leaf_apps: I32, memory: float, key: F64, fair_up_to: F64) -> None:
    """Set the keys of jobs with sizes, and up to which memory (MB) the others precede them: late jobs always."""
    for leaf in range(len(leaf_first) - 1):
        apps = leaf_apps[leaf_first[leaf] : leaf_first[leaf + 1]]
        alive, used, guaranteed = 0, 0.0, 0.0
        for app in apps:
            alive += jobs[app].open > 0.0
            used += view.app_amounts[app, 1, 0] + view.app_amounts[app, 0, 0]
        for partition in range(view.limit_amounts.shape[1]):
            guaranteed += view.limit_amounts[leaf, partition, GUARANTEED, 0]
        for app in apps:
            if jobs[app].virtual_ms == inf:
                fair_up_to[app] = max(min(guaranteed, memory), used) / max(alive, 1)
            elif jobs[app].virtual_ms > 0.0:
                key[app] = jobs[app].virtual_ms
            else:
                fair_up_to[app] = inf


@kernel
def advance_and_rank(
    view: View,
    jobs: Records,
    which: I32,
    leaf_first: I32,
    leaf_apps: I32,
    ghosts: F64,
    first_ghost: I32,
    durations: Durations,
    totals: F64,
    elapsed_ms: float,
    endless: int,
    key: F64,
    fair_up_to: F64,
) -> None:
    """Advance the virtual systems to now, apply new size estimates, and set the keys."""
    advance(view, jobs, leaf_first, leaf_apps, ghosts, first_ghost, totals, elapsed_ms)
    resize(view, jobs, which, durations, totals, endless)
    rank(view, jobs, leaf_first, leaf_apps, totals[0], key, fair_up_to)


Number = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Number, Field(ge=0.0)]


class Kept(BaseModel):
    """A `Progress` by YARN's identifiers, as it outlives a process; of a file, or of a recording by any author."""

    model_config = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")

    now_ms: Annotated[int, Field(ge=0, le=1 << 47)]
    form: str
    """The columns of ``jobs``, as text: those of another release may differ."""
    jobs: bytes
    """Rows of `JOB`."""
    logs: Annotated[list[Number], Field(min_length=len(CLASSES) + 1, max_length=len(CLASSES) + 1)]
    counts: Annotated[list[Positive], Field(min_length=len(CLASSES) + 1, max_length=len(CLASSES) + 1)]
    known: Annotated[dict[str, tuple[Positive, Number]], Field(max_length=NAMES_MAX)]
    ghosts: Annotated[list[tuple[str, Positive]], Field(max_length=GHOSTS_MAX)]
    """Paths of queues, and remaining virtual service, in ms."""

    def rows(self) -> Records:
        """Return the applications."""
        return np.frombuffer(self.jobs, JOB)

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.form != str(JOB):
            raise ValueError("another release of Treadle wrote it")
        columns = {name: self.rows()[name] for name in JOB.names or () if name not in WHICH}
        finite = all(np.isfinite(column).all() for name, column in columns.items() if name != "virtual_ms")
        if not finite or not all((column >= 0.0).all() for name, column in columns.items() if name != "prior"):
            raise ValueError("an application has a number that is not possible")
        return self


class Progress(Keeper):
    """Progress of each application's tasks, and statistics of finished jobs."""

    observes = False

    def __init__(self) -> None:
        self.jobs = Table(JOB)
        self.now_ms = -1
        self.elapsed_ms = 0.0
        self.logs: F64 = np.zeros(len(CLASSES) + 1)
        """Sum of the log mean task times of finished jobs, by size class."""
        self.counts: F64 = np.zeros(len(CLASSES) + 1)
        self.known: dict[str, tuple[float, float]] = {}
        """(count, sum) of log deviations: users (``user ...``) from their size class, and names (``name ...``)."""
        self.ghost_leaf: I32 = np.zeros(0, np.int32)
        self.ghost_ms: F64 = np.zeros(0)
        """Remaining virtual service of jobs that have finished in reality, in ms."""

    def learned(self, cluster: Cluster) -> LearnedState | None:
        """Return the state; None before the first decision."""
        if self.now_ms < 0:
            return None
        which = cluster.apps.in_use()
        jobs = self.jobs.at[which[which < len(self.jobs.at)]]  # not those that came after the last decision
        kept = Kept.model_construct(
            now_ms=self.now_ms,
            form=str(JOB),
            jobs=jobs[jobs["general"] > 0.0].tobytes(),
            logs=self.logs.tolist(),
            counts=self.counts.tolist(),
            known=self.known,
            ghosts=self._ghosts(cluster),
        )
        return LearnedState(np.frombuffer(kept.model_dump_json().encode(), np.uint8))

    def apply(self, event: Samples | LearnedState, cluster: Cluster) -> None:
        """Continue from the state of an earlier process, unless this one has decided already."""
        if not isinstance(event, LearnedState) or self.now_ms >= 0:
            return
        try:
            kept = Kept.model_validate_json(event.content.tobytes())
        except ValueError as error:
            raise ModelError(f"LearnedState: {error}") from error
        self.now_ms, self.known = kept.now_ms, kept.known
        self.logs, self.counts = np.array(kept.logs), np.array(kept.counts)
        self._place_ghosts(kept.ghosts, cluster)
        earlier = {row[list(WHICH)].item(): row for row in kept.rows()}
        self.jobs.reserve(len(cluster.apps.at))
        for app in cluster.apps.in_use().tolist():
            row = earlier.get(cluster.apps.at[app][list(WHICH)].item())
            if row is not None:
                self.jobs.at[app] = row

    def begin(self, jobs: Jobs) -> None:
        """Update the progress of tasks."""
        self.update(jobs.cluster, jobs.view, jobs.allocatable(), jobs.now_ms)

    def update(self, cluster: Cluster, view: View, totals: F64, now_ms: int) -> None:
        """Update the progress of tasks; ``totals`` are the allocatable resources."""
        self.elapsed_ms = float(max(now_ms - self.now_ms, 0)) if self.now_ms >= 0 else 0.0
        self.now_ms = now_ms
        self.jobs.reserve(len(cluster.apps.at))
        which, jobs = cluster.apps.in_use(), self.jobs.at
        changes = np.zeros(len(which), np.uint8)
        if measure_progress(view, jobs, which, totals, self.elapsed_ms, changes) > 0:
            ended, new = which[changes == ENDED], which[changes == NEW]
            self._learn(cluster, cluster.apps.at[ended], jobs[ended])
            for app in new.tolist():
                self._meet(cluster, app)
            measure_progress(view, jobs, new, totals, self.elapsed_ms, changes)

    def of_class(self, prior_ms: float) -> F64:
        """Return the log task time of each size class."""
        every = (self.logs.sum() + log(prior_ms)) / (self.counts.sum() + 1.0)
        means: F64 = (self.logs + CLASS_WEIGHT * every) / (self.counts + CLASS_WEIGHT)
        return means

    def _meet(self, cluster: Cluster, app: int) -> None:
        """Look up statistics of an application's name and user."""
        record = cluster.apps.at[app]
        self.jobs.at[app] = np.zeros((), JOB)
        for column in WHICH:
            self.jobs.at[column][app] = record[column]
        user, name = _names(cluster, record)
        many, much = self.known.get(user, (0.0, 0.0))
        offset = much / (many + USER_WEIGHT)
        many, much = self.known.get(name, (0.0, 0.0))
        self.jobs.at["prior"][app] = (much + NAME_WEIGHT * offset) / (many + NAME_WEIGHT)
        self.jobs.at["general"][app] = NAME_WEIGHT / (many + NAME_WEIGHT)

    def _learn(self, cluster: Cluster, apps: Records, jobs: Records) -> None:
        """Learn from finished jobs; tasks open at the last update have ended since."""
        for app, job in zip(apps, jobs, strict=True):
            if 0.0 < job["virtual_ms"] < inf:
                self.ghost_leaf = np.append(self.ghost_leaf, app["queue"])
                self.ghost_ms = np.append(self.ghost_ms, job["virtual_ms"])
            tasks = float(job["ended"] + job["open"])
            tested_ms = float(job["tested_ms"] + job["running"] * self.elapsed_ms / 2)
            if tasks <= 0.0 or tested_ms <= 0.0 or cluster.names.texts[app["type"]] == ENDLESS:
                continue
            at = int(np.searchsorted(CLASSES, tasks))
            mean = log(max(tested_ms / tasks, 1.0))  # withdrawn requests count as tasks that took no time
            user, name = _names(cluster, app)
            usual = self.logs[at] / self.counts[at] if self.counts[at] else mean
            for key, value in ((user, mean - usual), (name, mean)):
                many, much = self.known.pop(key, (0.0, 0.0))
                self.known[key] = many + 1.0, much + value
            while len(self.known) > NAMES_MAX:
                del self.known[next(iter(self.known))]
            self.logs[at] += mean
            self.counts[at] += 1.0

    def advance(self, jobs: Jobs, key: F64) -> None:
        """Advance the virtual systems to now, with current size estimates, and set the keys of jobs with sizes."""
        cluster, totals = jobs.cluster, jobs.allocatable()
        apps, endless = cluster.apps, cluster.names.index_of(ENDLESS)
        if len(self.ghost_leaf):
            order = np.argsort(self.ghost_leaf, kind="stable")
            self.ghost_leaf, self.ghost_ms = self.ghost_leaf[order], self.ghost_ms[order]
            first = np.searchsorted(self.ghost_leaf, np.arange(len(apps.leaf_first))).astype(np.int32)
        else:
            first = np.zeros(len(apps.leaf_first), np.int32)
        which, lists = apps.in_use(), (apps.leaf_first, apps.leaf_applications, self.ghost_ms, first)
        moment = jobs.durations(), totals, self.elapsed_ms, endless
        advance_and_rank(jobs.view, self.jobs.at, which, *lists, *moment, key, jobs.scratch.apps["fair_up_to"])
        self.elapsed_ms = 0.0
        if not len(self.ghost_leaf):
            return
        known = (self.ghost_leaf >= 0) & (self.ghost_leaf < len(apps.leaf_first) - 1)
        left = np.flatnonzero(known & (self.ghost_ms > 0.0))
        # They would never finish in a leaf without capacity: keep those with the least remaining service.
        left = np.sort(left[np.argsort(self.ghost_ms[left], kind="stable")[:GHOSTS_MAX]])
        self.ghost_leaf, self.ghost_ms = self.ghost_leaf[left], self.ghost_ms[left]

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Continue after a snapshot."""
        before = self.jobs.at
        self._learn(old, old.apps.at[carried.ended], before[carried.ended])
        live = np.flatnonzero(carried.apps[: len(before)] >= 0)
        self.jobs = Table(JOB)
        self.jobs.reserve(len(new.apps.at))
        self.jobs.at[carried.apps[live]] = before[live]
        self._place_ghosts(self._ghosts(old), new)

    def _ghosts(self, cluster: Cluster) -> list[tuple[str, float]]:
        """Return queue and remaining virtual service of the jobs that have finished in reality only."""
        paths = cluster.queues.at["path"][self.ghost_leaf]
        return [(cluster.names.texts[path], left) for path, left in zip(paths, self.ghost_ms.tolist(), strict=True)]

    def _place_ghosts(self, ghosts: Iterable[tuple[str, float]], cluster: Cluster) -> None:
        """Keep those of the queues that exist."""
        leaves = {cluster.names.texts[row["path"]]: at for at, row in enumerate(cluster.queues.at) if row["exists"]}
        found = [(leaves[path], left) for path, left in ghosts if path in leaves]
        self.ghost_leaf = np.array([leaf for leaf, _ in found], np.int32)
        self.ghost_ms = np.array([left for _, left in found], float)


def _names(cluster: Cluster, app: np.void) -> tuple[str, str]:
    """Return the statistics keys of an application's user and name."""
    texts = cluster.names.texts
    user, name = texts[app["user"]], texts[app["name"]]
    if len(name) > NAME_CHARS_MAX:
        name = blake2b(name.encode(), digest_size=16).hexdigest()
    return f"user {user}", f"name {user} {name}"


class TimeOnTestParameters(Parameters):
    """Parameters of the estimate `time_on_test`."""

    prior_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run before any job has ended."
    )
    weight: float = Field(default=1.0, gt=0.0, le=1e6, description="How many tasks that ended the prior counts for.")


class TimeOnTestEstimate(Estimate, kind="time_on_test", parameters=TimeOnTestParameters):
    """Total time on test: the time that a job's tasks have had over those that ended, with a prior of earlier jobs."""

    keeper: type[Keeper] | None = Progress
    kept: Progress

    def __init__(self, parameters: TimeOnTestParameters) -> None:
        self.default_ms = float(parameters.prior_ms)
        self._weight = parameters.weight

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the estimates; hints take precedence."""
        of_class = self.kept.of_class(self.default_ms)
        jobs = self.kept.jobs.at
        durations_on_test(view, jobs, CLASSES, of_class, self._weight, np.empty(len(jobs)), found)
        if found.hints > 0:  # a call with nothing to do takes time too, in each decision
            hinted_durations(view, found)


class FairFinishOrder(Order, kind="fair_finish", traits=BY_DURATIONS):
    """The application that fair sharing would end first; who is late there shares fairly before all (FSP, PSBS)."""

    steps = "finish"
    keeper: type[Keeper] | None = Progress
    kept: Progress

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Set the remaining service of each job in its leaf's virtual system."""
        self.kept.advance(jobs, key)

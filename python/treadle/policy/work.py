"""Remaining work and attained service of applications, from the policy's estimates of task durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.compiled.pair_map import find
from treadle.model.cluster import Cluster
from treadle.model.containers import group_key
from treadle.model.tables import ASSUMED, TOTAL, USED, View
from treadle.policy.state import CLUSTER, IGNORED, TIME_ONLY, Scratch


@kernel
def charge(apps: Records, which: I32, elapsed_ms: int) -> None:
    """Add the usage of some applications since `note_use` to their attained service."""
    for app in which:
        apps[app].service_ms += apps[app].share * elapsed_ms
        apps[app].container_ms += apps[app].charged * float(elapsed_ms)


@kernel
def note_use(apps: Records, amounts: I64, counted: U8, which: I32, totals: F64) -> None:
    """Record the usage of some applications, in-flight proposals included; ``totals`` are the cluster's resources."""
    for app in which:
        share = 0.0
        for r in range(len(counted)):
            if counted[r] and totals[r] > 0.0:
                share = max(share, (amounts[app, USED, r] + amounts[app, ASSUMED, r]) / totals[r])
        apps[app].share = share
        apps[app].charged = apps[app].containers + apps[app].assumed_count


@tables
class Durations(NamedTuple):
    """Task durations in ms; NaN if unknown."""

    rows_ms: F64
    """By request row."""
    groups_ms: F64
    """By group of running or ended tasks."""
    hint_ms: F64
    """By hint: its own value, for stages without requests so far."""
    default_ms: float
    """Replaces unknown ones."""
    rows: int
    hints: int
    groups: int
    """Number of groups."""


@inner
def hint_group(view: View, hint: int) -> int:
    """Return the group of a hint's tasks, or -1."""
    if view.hints[hint].priority < 0:
        return -1
    return find(view.group_index, group_key(view.hints[hint].application, view.hints[hint].priority))


@inner
def set_duration(view: View, durations: Durations, hint: int, duration_ms: float) -> None:
    """Set the duration of a hint's request row and task group."""
    if view.hints[hint].row >= 0:
        durations.rows_ms[view.hints[hint].row] = duration_ms
    group = hint_group(view, hint)
    if group >= 0:
        durations.groups_ms[group] = duration_ms


@kernel
def hinted_durations(view: View, durations: Durations) -> None:
    """Set hinted durations: for a request row from its key, for a task group from any of its keys."""
    for at in range(durations.hints):
        if view.hints[at].application >= 0 and view.hints[at].duration_ms >= 0:
            set_duration(view, durations, at, float(view.hints[at].duration_ms))


@inner
def ended_of(view: View, uncounted: Records, group: int) -> int:
    """Return how many tasks of a group have ended; ``uncounted`` are those outside the model (`Scratch.ended`)."""
    return int(view.groups[group].ended + (uncounted[group].ended if group < len(uncounted) else 0))


@inner
def ended_ms_of(view: View, uncounted: Records, group: int) -> int:
    """Return the total duration in ms of the same tasks."""
    return int(view.groups[group].ended_ms + (uncounted[group].ended_ms if group < len(uncounted) else 0))


@kernel
def observed_durations(view: View, uncounted: Records, durations: Durations) -> None:
    """Set mean durations of ended tasks; if no task of a priority has ended, those of the application's other tasks."""
    rows_ms, groups_ms = durations.rows_ms, durations.groups_ms
    for group in range(durations.groups):
        app = view.groups[group].application
        if app < 0:
            continue
        if ended_of(view, uncounted, group) > 0:
            groups_ms[group] = ended_ms_of(view, uncounted, group) / ended_of(view, uncounted, group)
        else:
            mean = application_mean_ms(view, uncounted, app)
            if mean >= 0.0:
                groups_ms[group] = mean
    for row in range(durations.rows):
        app = view.rows[row].application
        if app < 0:
            continue
        group = group_of_row(view, row)
        if group >= 0:
            rows_ms[row] = groups_ms[group]
        else:
            mean = application_mean_ms(view, uncounted, app)
            if mean >= 0.0:
                rows_ms[row] = mean


@inner
def group_of_row(view: View, row: int) -> int:
    """Return the group of a request row's tasks, or -1. The last result is tried first."""
    app, group = view.rows[row].application, view.rows[row].group
    known = group >= 0 and view.groups[group].application == app
    if known and view.groups[group].priority == view.rows[row].priority:
        return group
    group = find(view.group_index, group_key(app, view.rows[row].priority))
    view.rows[row].group = group
    return group


@inner
def application_mean_ms(view: View, uncounted: Records, app: int) -> float:
    """Return the mean duration of an application's ended tasks, -1 if there are none."""
    ended, ended_ms = 0, 0
    group = view.apps[app].first_group
    while group >= 0:
        ended += ended_of(view, uncounted, group)
        ended_ms += ended_ms_of(view, uncounted, group)
        group = view.groups[group].next
    return ended_ms / ended if ended > 0 else -1.0


@inner
def or_default(duration_ms: float, default_ms: float) -> float:
    """Return a duration, or the default if it is unknown (NaN)."""
    return duration_ms if duration_ms >= 0.0 else default_ms


@inner
def demand_of(amounts: I64, at: int, totals: F64) -> float:
    """Return the sum of a row's amounts as fractions of the allocatable totals; skip resources with total 0."""
    demand = 0.0
    for r in range(len(totals)):
        if totals[r] > 0.0:
            demand += amounts[at, r] / totals[r]
    return demand


@inner
def add_asks(view: View, durations: Durations, totals: F64, work: F64, time_ms: F64) -> None:
    """Add requested tasks, except where a hint says how many remain."""
    for row in range(durations.rows):
        app, hint = view.rows[row].application, view.rows[row].hint
        if app >= 0 and (hint < 0 or view.hints[hint].tasks < 0):
            left_ms = view.rows[row].count * or_default(durations.rows_ms[row], durations.default_ms)
            time_ms[app] += left_ms
            work[app] += left_ms * demand_of(view.capability, row, totals)


@inner
def hinted_duration_ms(view: View, hint: int, group: int, durations: Durations) -> float:
    """Return the task duration of a hint: its request row's, else its tasks', else its own."""
    if view.hints[hint].row >= 0:
        return float(durations.rows_ms[view.hints[hint].row])
    return float(durations.groups_ms[group] if group >= 0 else durations.hint_ms[hint])


@inner
def demand_of_others(view: View, app: int, totals: F64) -> float:
    """Return the largest demand of an application's requests and running tasks; 0 if there are none."""
    demand, row = 0.0, view.apps[app].first_row
    while row >= 0:
        if view.rows[row].count > 0:
            demand = max(demand, demand_of(view.capability, row, totals))
        row = view.rows[row].next
    group = view.apps[app].first_group
    while group >= 0:
        if view.groups[group].running > 0:
            each = demand_of(view.group_amounts, group, totals) / view.groups[group].running
            demand = max(demand, each)
        group = view.groups[group].next
    return demand


@inner
def add_hints(view: View, apps: Records, durations: Durations, totals: F64, work: F64, time_ms: F64) -> None:
    """Add the tasks of hints that say how many remain; mark the groups that they cover.

    The demands of stages without requests are unknown: they count in time alone, unless the gate says otherwise (the
    column ``ahead`` of ``apps``, a cycle's applications).
    """
    for hint in range(durations.hints):
        app = view.hints[hint].application
        if app < 0 or view.hints[hint].tasks < 0:
            continue
        ahead = view.hints[hint].priority < 0
        if ahead and apps[app].ahead == IGNORED:
            continue
        group = hint_group(view, hint)
        if group >= 0:
            view.groups[group].covered = 1
        duration_ms = hinted_duration_ms(view, hint, group, durations)
        left_ms = view.hints[hint].tasks * or_default(duration_ms, durations.default_ms)
        time_ms[app] += left_ms
        if ahead:
            if apps[app].ahead != TIME_ONLY:
                work[app] += left_ms * demand_of_others(view, app, totals)
        else:
            work[app] += left_ms * demand_of(view.hint_capability, hint, totals)


@inner
def add_running(view: View, durations: Durations, totals: F64, now_ms: int, work: F64, time_ms: F64) -> None:
    """Add the remaining time of running tasks or, if they are already included as a whole, subtract their past."""
    for group in range(durations.groups):
        app, running = view.groups[group].application, view.groups[group].running
        if app >= 0 and running > 0:
            whole_ms = running * or_default(durations.groups_ms[group], durations.default_ms)
            past_ms = min(float(max(running * now_ms - view.groups[group].created_ms, 0)), whole_ms)
            more_ms = -past_ms if view.groups[group].covered else whole_ms - past_ms
            time_ms[app] += more_ms
            work[app] += more_ms * demand_of(view.group_amounts, group, totals) / running
        view.groups[group].covered = 0


@kernel
def add_work(
    view: View, apps: Records, durations: Durations, totals: F64, now_ms: int, work: F64, time_ms: F64
) -> None:
    """Set for each application the sum over its remaining tasks of duration x demands, and of durations.

    Demands are fractions of ``totals``, the allocatable resources, summed over the resources (Tetris, Graphene's srpt).
    ``apps`` are the cycle's (`treadle.policy.state.APPLICATION`); ``work`` and ``time_ms`` are initially 0. A task that
    has run longer than expected counts as about to end.
    """
    add_asks(view, durations, totals, work, time_ms)
    add_hints(view, apps, durations, totals, work, time_ms)
    add_running(view, durations, totals, now_ms, work, time_ms)
    for app in range(len(work)):
        work[app] = max(work[app], 0.0)
        time_ms[app] = max(time_ms[app], 0.0)


@kernel
def add_whole(view: View, uncounted: Records, durations: Durations, whole_ms: F64) -> None:
    """Add the estimated total duration of requested, running and successful tasks.

    Where a hint says how many tasks of a key remain, these replace the requested and running ones. ``uncounted`` are
    ended tasks that the model does not count (`Scratch.ended`).
    """
    default_ms = durations.default_ms
    for row in range(durations.rows):
        app, hint = view.rows[row].application, view.rows[row].hint
        if app >= 0 and (hint < 0 or view.hints[hint].tasks < 0):
            whole_ms[app] += view.rows[row].count * or_default(durations.rows_ms[row], default_ms)
    for hint in range(durations.hints):
        app = view.hints[hint].application
        if app >= 0 and view.hints[hint].tasks >= 0:
            group = hint_group(view, hint)
            if group >= 0:
                view.groups[group].covered = 1
            duration_ms = hinted_duration_ms(view, hint, group, durations)
            whole_ms[app] += view.hints[hint].tasks * or_default(duration_ms, default_ms)
    for group in range(durations.groups):
        app = view.groups[group].application
        if app >= 0:
            tasks = ended_of(view, uncounted, group)
            tasks += 0 if view.groups[group].covered else view.groups[group].running
            whole_ms[app] += tasks * or_default(durations.groups_ms[group], default_ms)
        view.groups[group].covered = 0


@kernel
def add_up_nodes(view: View, totals: F64) -> int:
    """Set the cluster's resources; return the number of nodes."""
    count = 0
    for r in range(len(totals)):
        totals[r] = 0.0
    for node in range(len(view.nodes)):
        if view.nodes[node].state > 0:
            count += 1
            for r in range(len(totals)):
                totals[r] += view.node_amounts[node, TOTAL, r]
    return count


@dataclass
class Jobs:
    """The applications of one cycle. Expensive columns are computed on first use.

    Columns are by application index and as long as ``cluster.apps.at``; they are undefined for inactive applications.
    """

    cluster: Cluster
    view: View
    estimate: Callable[[Cluster, View, Records, Durations], None]
    """Sets task durations (`treadle.policy.parts.Estimate`)."""
    default_ms: float
    """Duration of a task without an estimate, in ms."""
    scratch: Scratch
    """The cycle's state, with the cluster's resources."""
    now_ms: int
    """The RM's time."""
    overbooked: Mapping[int, float]
    """Factor of the capacity, by resource that the RM does not count."""

    def durations(self) -> Durations:
        """Return the estimated task durations."""
        cluster, hint_ms = self.cluster, self.view.hints["duration_ms"]
        durations = Durations(
            rows_ms=np.full(len(self.view.rows), np.nan),
            groups_ms=np.full(len(self.view.groups), np.nan),
            hint_ms=np.where(hint_ms < 0, np.nan, hint_ms),
            default_ms=self.default_ms,
            rows=cluster.requests.size,
            hints=cluster.hints.size,
            groups=cluster.groups.size,
        )
        self.estimate(cluster, self.view, self.scratch.ended, durations)
        return durations

    def row_ms(self) -> F64:
        """Return the container duration of each request row in ms, the default if unknown."""
        durations = self.durations()
        return np.where(np.isnan(durations.rows_ms), durations.default_ms, durations.rows_ms)

    def work(self) -> F64:
        """Return the remaining work: over the remaining tasks the sum of duration x demands, cluster shares x ms.

        The demand of an overbooked resource is a fraction of its allocatable total.
        """
        return self._work_and_left_ms[0]

    def left_ms(self) -> F64:
        """Return the total duration of the remaining tasks, in ms."""
        return self._work_and_left_ms[1]

    def whole_ms(self) -> F64:
        """Return the estimated total duration of requested, running and successful tasks, in ms.

        Includes hinted stages without requests so far.
        """
        whole_ms = np.zeros(len(self.view.apps))
        add_whole(self.view, self.scratch.ended, self.durations(), whole_ms)
        return whole_ms

    @cached_property
    def _work_and_left_ms(self) -> tuple[F64, F64]:
        work, left_ms = np.zeros(len(self.view.apps)), np.zeros(len(self.view.apps))
        add_work(self.view, self.scratch.apps, self.durations(), self.allocatable(), self.now_ms, work, left_ms)
        return work, left_ms

    def allocatable(self) -> F64:
        """Return the allocatable amount of each resource; 0 for unbounded ones."""
        totals = self.scratch.rates[CLUSTER]
        amounts = np.where(self.view.counted == 1, totals, 0.0)
        for resource, factor in self.overbooked.items():
            amounts[resource] = factor * totals[resource]
        return amounts


@inner
def seen_ms(view: View, uncounted: Records, group: int, default_ms: float, now_ms: int) -> float:
    """Return the mean lifetime of a group's containers in ms, as seen by the RM.

    A running one counts with at least ``default_ms``, since its duration is unknown; so does a group without
    containers.
    """
    if group < 0 or ended_of(view, uncounted, group) + view.groups[group].running == 0:
        return default_ms
    ended, running = ended_of(view, uncounted, group), view.groups[group].running
    lived_ms = float(ended_ms_of(view, uncounted, group))
    if running > 0:
        lived_ms += max(float(running * now_ms - view.groups[group].created_ms), running * default_ms)
    return lived_ms / (ended + running)


@kernel
def floor_claims(view: View, uncounted: Records, keys: int, now_ms: int, default_ms: float, fraction: float) -> None:
    """Raise application reports to lower bounds seen by the RM.

    A key has at least as many tasks as are requested and running at its priority, and a task runs for at least a
    ``fraction`` of a container's lifetime: a reused container runs several. ``keys`` is the number of keys with
    hints, ``uncounted`` are ended tasks that the model does not count (`Scratch.ended`).
    """
    for at in range(keys):
        if view.hints[at].application < 0:
            continue
        group = hint_group(view, at)
        if view.hints[at].claimed_tasks >= 0:
            row = view.hints[at].row
            seen = view.groups[group].running if group >= 0 else 0
            seen += view.rows[row].count if row >= 0 else 0
            view.hints[at].tasks = max(view.hints[at].claimed_tasks, seen)
        if view.hints[at].claimed_ms >= 0:
            least_ms = fraction * seen_ms(view, uncounted, group, default_ms, now_ms)
            view.hints[at].duration_ms = max(view.hints[at].claimed_ms, int(least_ms))

"""Work left and service attained, by application, by how long tasks run as the policy estimates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find
from treadle.compiled.structs import tables
from treadle.model.cluster import Cluster
from treadle.model.containers import group_key
from treadle.model.tables import ASSUMED, TOTAL, USED, View
from treadle.policy.state import CLUSTER, IGNORED, TIME_ONLY, Scratch


@kernel
def charge(apps: Records, which: I32, elapsed_ms: int) -> None:
    """Add what some applications have used since `note_use` to the service that they have had."""
    for app in which:
        apps[app].service_ms += apps[app].share * elapsed_ms
        apps[app].container_ms += apps[app].charged * float(elapsed_ms)


@kernel
def note_use(apps: Records, amounts: I64, counted: U8, which: I32, totals: F64) -> None:
    """Note what some applications use from now on, with what is assumed; ``totals`` are the cluster's resources."""
    for app in which:
        share = 0.0
        for r in range(len(counted)):
            if counted[r] and totals[r] > 0.0:
                share = max(share, (amounts[app, USED, r] + amounts[app, ASSUMED, r]) / totals[r])
        apps[app].share = share
        apps[app].charged = apps[app].containers + apps[app].assumed_count


@tables
class Durations(NamedTuple):
    """How long a task takes, NaN where that is not known."""

    rows_ms: F64
    """Of each request row."""
    groups_ms: F64
    """Of each group of tasks that run or have run."""
    hint_ms: F64
    """Of each hint: what it says, which counts for what was not asked for yet."""
    default_ms: float
    """For what is not known."""
    rows: int
    hints: int
    groups: int
    """How many there are."""


@kernel
def hinted_durations(view: View, found: Durations) -> None:
    """Set the durations of hints: of the key for its row, of any of its keys for a group of tasks."""
    rows_ms, groups_ms = found.rows_ms, found.groups_ms
    for at in range(found.hints):
        app = view.hints[at].application
        if app < 0 or view.hints[at].duration_ms < 0:
            continue
        if view.hints[at].row >= 0:
            rows_ms[view.hints[at].row] = view.hints[at].duration_ms
        if view.hints[at].priority >= 0:
            group = find(view.group_index, group_key(app, view.hints[at].priority))
            if group >= 0:
                groups_ms[group] = view.hints[at].duration_ms


@inner
def ended_of(view: View, more: Records, group: int) -> int:
    """Return how many tasks of a group have ended, with those of `Scratch.ended` (``more``)."""
    return int(view.groups[group].ended + (more[group].ended if group < len(more) else 0))


@inner
def ended_ms_of(view: View, more: Records, group: int) -> int:
    """Return how long the tasks of a group that have ended took together, with those of `Scratch.ended`."""
    return int(view.groups[group].ended_ms + (more[group].ended_ms if group < len(more) else 0))


@kernel
def observed_durations(view: View, more: Records, found: Durations) -> None:
    """Set the means of tasks that ended; of the application's other tasks where none of that priority has ended."""
    rows_ms, groups_ms = found.rows_ms, found.groups_ms
    for group in range(found.groups):
        app = view.groups[group].application
        if app < 0:
            continue
        if ended_of(view, more, group) > 0:
            groups_ms[group] = ended_ms_of(view, more, group) / ended_of(view, more, group)
        else:
            mean = application_mean_ms(view, more, app)
            if mean >= 0.0:
                groups_ms[group] = mean
    for row in range(found.rows):
        app = view.rows[row].application
        if app < 0:
            continue
        group = group_of_row(view, row)
        if group >= 0:
            rows_ms[row] = groups_ms[group]
        else:
            mean = application_mean_ms(view, more, app)
            if mean >= 0.0:
                rows_ms[row] = mean


@inner
def group_of_row(view: View, row: int) -> int:
    """Return the group of a request row's tasks, or -1. Where it was found last is tried first."""
    app, group = view.rows[row].application, view.rows[row].group
    known = group >= 0 and view.groups[group].application == app
    if known and view.groups[group].priority == view.rows[row].priority:
        return group
    group = find(view.group_index, group_key(app, view.rows[row].priority))
    view.rows[row].group = group
    return group


@inner
def application_mean_ms(view: View, more: Records, app: int) -> float:
    """Return the mean duration of an application's tasks that have ended, -1 if none has."""
    ended, ended_ms = 0, 0
    group = view.apps[app].first_group
    while group >= 0:
        ended += ended_of(view, more, group)
        ended_ms += ended_ms_of(view, more, group)
        group = view.groups[group].next
    return ended_ms / ended if ended > 0 else -1.0


@inner
def or_default(duration_ms: float, default_ms: float) -> float:
    """Return a duration, the default if it is not known (NaN)."""
    return duration_ms if duration_ms >= 0.0 else default_ms


@inner
def demand_of(amounts: I64, at: int, totals: F64) -> float:
    """Return the sum of a row's amounts, each as a share of what may be given out; none of a resource of 0."""
    demand = 0.0
    for r in range(len(totals)):
        if totals[r] > 0.0:
            demand += amounts[at, r] / totals[r]
    return demand


@inner
def add_asks(view: View, found: Durations, totals: F64, work: F64, time_ms: F64) -> None:
    """Add the tasks that requests ask for, except where a hint says how many have not ended."""
    for row in range(found.rows):
        app, hint = view.rows[row].application, view.rows[row].hint
        if app >= 0 and (hint < 0 or view.hints[hint].tasks < 0):
            left_ms = view.rows[row].count * or_default(found.rows_ms[row], found.default_ms)
            time_ms[app] += left_ms
            work[app] += left_ms * demand_of(view.capability, row, totals)


@inner
def hint_group(view: View, hint: int) -> int:
    """Return the group of a hint's tasks, or -1."""
    if view.hints[hint].priority < 0:
        return -1
    return find(view.group_index, group_key(view.hints[hint].application, view.hints[hint].priority))


@inner
def hinted_duration_ms(view: View, hint: int, group: int, durations: Durations) -> float:
    """Return how long a task of a hint takes: as of its request row, else of its tasks, else as the hint says."""
    if view.hints[hint].row >= 0:
        return float(durations.rows_ms[view.hints[hint].row])
    return float(durations.groups_ms[group] if group >= 0 else durations.hint_ms[hint])


@inner
def demand_of_others(view: View, app: int, totals: F64) -> float:
    """Return the largest demand of what an application asks for and runs; 0 if that is nothing."""
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
    """Add the tasks of hints that say how many have not ended; mark the groups that these cover.

    The demands of what was not asked for yet are not known: it counts in time alone, unless the gate says more (the
    column ``ahead`` of ``apps``, a decide's applications).
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
def add_running(view: View, found: Durations, totals: F64, now_ms: int, work: F64, time_ms: F64) -> None:
    """Add the rests of tasks that run, or, if they are in already as a whole, take off their past."""
    for group in range(found.groups):
        app, running = view.groups[group].application, view.groups[group].running
        if app >= 0 and running > 0:
            whole_ms = running * or_default(found.groups_ms[group], found.default_ms)
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

    Demands are shares of ``totals``, what may be given out, added up over the resources (Tetris, Graphene's srpt).
    ``apps`` are the decide's (`treadle.policy.state.APPLICATION`); ``work`` and ``time_ms`` are 0 before. A task that
    has run longer than expected counts as about to end.
    """
    add_asks(view, durations, totals, work, time_ms)
    add_hints(view, apps, durations, totals, work, time_ms)
    add_running(view, durations, totals, now_ms, work, time_ms)
    for app in range(len(work)):
        work[app] = max(work[app], 0.0)
        time_ms[app] = max(time_ms[app], 0.0)


@kernel
def add_whole(view: View, more: Records, durations: Durations, whole_ms: F64) -> None:
    """Add what the tasks take that are asked for, run or have ended well, each as long as its estimate says.

    Where a hint says how many tasks of a key have not ended, these count for those that are asked for and run. ``more``
    is what has ended besides what the model counts (`Scratch.ended`).
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
            tasks = ended_of(view, more, group)
            tasks += 0 if view.groups[group].covered else view.groups[group].running
            whole_ms[app] += tasks * or_default(durations.groups_ms[group], default_ms)
        view.groups[group].covered = 0


@kernel
def add_up_nodes(view: View, totals: F64) -> int:
    """Set the cluster's resources, and return how many nodes it has."""
    count = 0
    for r in range(len(totals)):
        totals[r] = 0.0
    for node in range(len(view.nodes)):
        if view.nodes[node].state > 0:
            count += 1
            for r in range(len(totals)):
                totals[r] += view.node_amounts[node, TOTAL, r]
    return count


class Jobs:
    """The applications of one decide. What is dear is worked out when it is first asked for.

    Columns are by application index and as long as ``cluster.apps.at``; they say nothing of applications that are not
    active.
    """

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        estimate: Callable[[Cluster, View, Records, Durations], None],
        default_ms: float,
        scratch: Scratch,
        now_ms: int,
        overbooked: Mapping[int, float],
    ) -> None:
        """Look at a cluster.

        Args:
            cluster: the model
            view: its columns
            estimate: sets how long tasks take (`treadle.policy.parts.Estimate`)
            default_ms: how long one takes of which that says nothing
            scratch: the decide's state, with the cluster's resources
            now_ms: the RM's time
            overbooked: resources that the RM does not count, and how many times what there is may be given out
        """
        self.cluster = cluster
        self.now_ms = now_ms
        self.view = view
        self._overbooked = overbooked
        self._estimate, self._default_ms, self._scratch = estimate, default_ms, scratch
        self._work: tuple[F64, F64] | None = None

    def durations(self) -> Durations:
        """Return how long tasks take by the estimate."""
        cluster, said_ms = self.cluster, self.view.hints["duration_ms"]
        durations = Durations(
            rows_ms=np.full(len(self.view.rows), np.nan),
            groups_ms=np.full(len(self.view.groups), np.nan),
            hint_ms=np.where(said_ms < 0, np.nan, said_ms),
            default_ms=self._default_ms,
            rows=cluster.requests.size,
            hints=cluster.hints.size,
            groups=cluster.tasks.size,
        )
        self._estimate(cluster, self.view, self._scratch.ended, durations)
        return durations

    def row_ms(self) -> F64:
        """Return how long a container of each request row runs, the default where that is not known."""
        found = self.durations()
        return np.where(np.isnan(found.rows_ms), found.default_ms, found.rows_ms)

    def work(self) -> F64:
        """Return the work left: over the remaining tasks the sum of duration x demands, shares of the cluster x ms.

        Of a resource that is overbooked a demand is a share of what may be given out.
        """
        return self._both()[0]

    def left_ms(self) -> F64:
        """Return the sum of the durations of the remaining tasks."""
        return self._both()[1]

    def service_ms(self) -> F64:
        """Return the service attained: dominant share of the cluster x ms."""
        return self.view.apps["service_ms"]

    def container_ms(self) -> F64:
        """Return the time that all containers have had."""
        return self.view.apps["container_ms"]

    def whole_ms(self) -> F64:
        """Return what all tasks that are asked for, run or have ended well take together, by the estimate.

        Stages with hints that are not asked for yet are in it.
        """
        whole_ms = np.zeros(len(self.view.apps))
        add_whole(self.view, self._scratch.ended, self.durations(), whole_ms)
        return whole_ms

    def level(self) -> I32:
        """Return the level of each application until it has a size, as the gate says; -1: that of its size."""
        return self._scratch.apps["level"]

    def fair_up_to(self) -> F64:
        """Return up to how much memory each application shares fairly, before all that have keys; 0: it has a key.

        Beyond that it comes after all that have keys.
        """
        return self._scratch.apps["fair_up_to"]

    def part(self) -> F64:
        """Return what part of its tasks each application may run now, as the gate says."""
        return self._scratch.apps["part"]

    def _both(self) -> tuple[F64, F64]:
        if self._work is None:
            work, left_ms = np.zeros(len(self.view.apps)), np.zeros(len(self.view.apps))
            given_out = self.given_out()
            add_work(self.view, self._scratch.apps, self.durations(), given_out, self.now_ms, work, left_ms)
            self._work = work, left_ms
        return self._work

    def given_out(self) -> F64:
        """Return how much of each resource may be given out; 0 of those that nodes do not bound."""
        there = self._scratch.rates[CLUSTER]
        found = np.where(self.view.counted == 1, there, 0.0)
        for resource, factor in self._overbooked.items():
            found[resource] = factor * there[resource]
        return found


@inner
def seen_ms(view: View, more: Records, group: int, default_ms: float, now_ms: int) -> float:
    """Return how long containers of a group live in the mean, as far as the RM has seen.

    One that runs counts at least ``default_ms``: it has shown nothing yet. So does a group without any.
    """
    if group < 0 or ended_of(view, more, group) + view.groups[group].running == 0:
        return default_ms
    ended, running = ended_of(view, more, group), view.groups[group].running
    lived_ms = float(ended_ms_of(view, more, group))
    if running > 0:
        lived_ms += max(float(running * now_ms - view.groups[group].created_ms), running * default_ms)
    return lived_ms / (ended + running)


@kernel
def floor_claims(view: View, more: Records, keys: int, now_ms: int, default_ms: float, part: float) -> None:
    """Let no claim count below what the RM sees.

    The tasks of a key are no fewer than what is asked for and what runs at its priority, the duration of one no shorter
    than a ``part`` of the life of a container: one that is used again has had several tasks. ``keys`` is how many keys
    something is known, ``more`` what has ended besides what the model counts (`Scratch.ended`).
    """
    for at in range(keys):
        if view.hints[at].application < 0:
            continue
        group = hint_group(view, at)
        if view.hints[at].claimed_tasks >= 0:
            row = view.hints[at].row
            there = view.groups[group].running if group >= 0 else 0
            there += view.rows[row].count if row >= 0 else 0
            view.hints[at].tasks = max(view.hints[at].claimed_tasks, there)
        if view.hints[at].claimed_ms >= 0:
            least_ms = part * seen_ms(view, more, group, default_ms, now_ms)
            view.hints[at].duration_ms = max(view.hints[at].claimed_ms, int(least_ms))

"""SLearn's pilot table, outside the model: the sampling state of each job, and its pilots' measurements.

Rows have the model's indices: ``jobs`` that of the application, ``pilot`` that of the task, ``ended`` that of the task
group. The table processes events after the model. After a snapshot it is carried over by the same identifiers as the
model, applications and containers. Measurements can be exported to a new engine, which then need not sample again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, U8, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.events import ApplicationState, ContainerEvent, Event
from treadle.model.carry import Carried, carry_ended, old_task
from treadle.model.cluster import Cluster
from treadle.model.containers import BEGAN, ENDED, GroupTable, ended_well
from treadle.model.queues import ApplicationTable
from treadle.model.tables import ModelError, Table, View, chain, grown
from treadle.policy.parts import Keeper
from treadle.policy.state import IGNORED, MAX_DEMAND, SUMS, TIME_ONLY
from treadle.yarn.codes import ABORTED, FAILED_MAP, KILLED_BY_APPMASTER, MAP, OPPORTUNISTIC_MAP, PREEMPTED


class Sampling(IntEnum):
    """Sampling state of an application (SLearn, NSDI 2022, section 5.1)."""

    UNKNOWN = 0
    RUNS_PILOTS = 1
    OPEN = 2
    THIN = 3


UNKNOWN, RUNS_PILOTS, OPEN, THIN = map(int, Sampling)

MAPS: Final = 0
"""``JOB.sampled_stage`` of a MapReduce job."""

JOB: Final = np.dtype(
    [
        ("sampled_since_ms", "i8"),  # when its pilots were first required
        ("pilots_ms", "f8"),  # sum of the durations of successful pilots
        ("pilots_squares", "f8"),  # sum of their squares
        ("pilot_mean_ms", "f8"),  # mean task duration by pilots when the gate opened; -1: none
        ("pilot_error", "f8"),  # standard error of its logarithm
        ("sized_ms", "f8"),  # for successful pilots with known input: sum of durations,
        ("sized_bytes", "f8"),  # of inputs,
        ("sized_squares", "f8"),  # of the squares of inputs,
        ("sized_products", "f8"),  # of durations times inputs,
        ("sized_duration_squares", "f8"),  # of the squares of durations
        ("pilot_percent", "f8"),  # the sampling ratio; 0: not sampled
        ("sampling", "i4"),  # a `Sampling`
        ("sampling_level", "i4"),  # level by history while pilots run; -1: the default
        ("sampled_stage", "i4"),  # `MAPS`; or the range of three Tez priorities that ends with three times this
        ("width", "i4"),  # tasks of the sampled stage, the maximum seen
        ("pilots", "i4"),  # number of pilots
        ("replacements", "i4"),  # additional ones, for hung pilots
        ("pilots_running", "i4"),
        ("pilots_ended", "i4"),  # successful ones
        ("failures", "i4"),  # repeated maps that had exited successfully
        ("ended_badly", "i4"),  # containers of its maps, repeated ones excluded
        ("sized", "i4"),  # those of them with known input
    ],
    align=True,
)
"""Sampling state of an application."""


_DEFAULTS: Final = {"pilot_mean_ms": -1, "sampling_level": -1}
NEW: Final = Table(JOB, (), _DEFAULTS).at[:1]
"""The row of an application that is not sampled."""


@tables
class Sampled(NamedTuple):
    """The table for kernels."""

    jobs: Records
    """`JOB` by application."""
    pilot: U8
    """By task: 1 for a pilot. Undefined for rows without a running task."""
    ended: Records
    """`treadle.policy.state.SUMS` by group: tasks in released containers, of applications that the gate has seen. The
    model does not count them as done."""


NONE: Final = Sampled(np.zeros(0, JOB), np.zeros(0, np.uint8), np.zeros(0, SUMS))
"""The table without a sampling gate."""


def belongs_to(stage: int, priority: int) -> bool:
    """Return whether containers of a priority belong to the sampled stage (``JOB.sampled_stage``)."""
    if stage == MAPS:
        return priority in (FAILED_MAP, OPPORTUNISTIC_MAP, MAP)
    return (priority + 2) // 3 == stage


is_of_stage: Final = inner(belongs_to)
"""`belongs_to` for kernels."""


@inner
def note_pilot(sampled: Sampled, app: int, task: int, priority: int) -> None:
    """Make a starting task a pilot if its application needs one."""
    sampled.pilot[task] = 0
    if sampled.jobs[app].sampling != RUNS_PILOTS or not is_of_stage(sampled.jobs[app].sampled_stage, priority):
        return
    wanted = sampled.jobs[app].pilots + sampled.jobs[app].replacements
    if sampled.jobs[app].pilots_running + sampled.jobs[app].pilots_ended < wanted:
        sampled.pilot[task] = 1
        sampled.jobs[app].pilots_running += 1


@inner
def note_input(jobs: Records, app: int, duration_ms: int, input_bytes: float) -> None:
    """Add the duration and input of a pilot to the sums, if its input is known."""
    if input_bytes > 0.0:
        jobs[app].sized += 1
        jobs[app].sized_ms += duration_ms
        jobs[app].sized_bytes += input_bytes
        jobs[app].sized_squares += input_bytes * input_bytes
        jobs[app].sized_products += float(duration_ms) * input_bytes
        jobs[app].sized_duration_squares += float(duration_ms) * float(duration_ms)


@inner
def note_end(apps: Records, groups: Records, sampled: Sampled, effects: Records, i: int, mapreduce: int) -> None:
    """Record the end of a task; with a sampling gate, a released container has completed its task."""
    group, task, status = effects[i].group, effects[i].task, effects[i].exit_status
    app, duration_ms = groups[group].application, effects[i].duration_ms
    well = ended_well(apps, app, status, mapreduce)
    if status == ABORTED and apps[app].type != mapreduce and sampled.jobs[app].sampling != UNKNOWN:
        well = True
        sampled.ended[group].ended += 1
        sampled.ended[group].ended_ms += duration_ms
    if task >= 0 and sampled.pilot[task]:
        sampled.jobs[app].pilots_running -= 1
        if well:
            sampled.jobs[app].pilots_ended += 1
            sampled.jobs[app].pilots_ms += duration_ms
            sampled.jobs[app].pilots_squares += float(duration_ms) * float(duration_ms)
            note_input(sampled.jobs, app, duration_ms, effects[i].input_bytes)
    # A preempted or killed map has not failed: only a failed one is requested again with the priority FAILED_MAP.
    failed = not well and status != PREEMPTED and status != KILLED_BY_APPMASTER
    if task >= 0 and failed and groups[group].priority in (MAP, OPPORTUNISTIC_MAP):
        sampled.jobs[app].ended_badly += 1


@kernel
def note_effects(apps: Records, groups: Records, sampled: Sampled, effects: Records, mapreduce: int) -> None:
    """Process the effects of container events (`treadle.model.containers.EFFECT`) in order."""
    for i in range(len(effects)):
        if effects[i].did == BEGAN:
            group = effects[i].group
            note_pilot(sampled, groups[group].application, effects[i].task, groups[group].priority)
        elif effects[i].did == ENDED:
            note_end(apps, groups, sampled, effects, i, mapreduce)


@kernel
def mark_jobs(jobs: Records, apps: Records, which: I32, sampling_level: int) -> None:
    """Set ``part``, ``level`` and ``ahead`` of some applications of a cycle; pilots run at ``sampling_level``."""
    for app in which:
        sampling = jobs[app].sampling
        apps[app].part = 1.0
        apps[app].level = 0 if sampling == THIN else -1
        apps[app].ahead = TIME_ONLY if sampling == UNKNOWN else MAX_DEMAND
        if sampling == RUNS_PILOTS:
            apps[app].part = jobs[app].pilots / max(jobs[app].width, 1)
            apps[app].level = jobs[app].sampling_level if jobs[app].sampling_level >= 0 else sampling_level
            apps[app].ahead = IGNORED


LEARNED: Final = tuple(name for name in JOB.names or () if name != "pilots_running")
"""The columns of a job that a snapshot carries over; running pilots are counted again."""


@inner
def oldest_new(old_index: Records, new: View, now: Sampled, app: int, old_app: int) -> int:
    """Return the first task of the sampled stage that started after the snapshot and is not a pilot, or -1."""
    best, group = -1, new.apps[app].first_group
    while group >= 0:
        task = new.groups[group].first if is_of_stage(now.jobs[app].sampled_stage, new.groups[group].priority) else -1
        while task >= 0:
            if not now.pilot[task] and old_task(old_index, new.tasks[task].key, app, old_app) < 0:
                earlier = best < 0 or new.tasks[task].created_ms < new.tasks[best].created_ms
                if not earlier and new.tasks[task].created_ms == new.tasks[best].created_ms:
                    earlier = new.tasks[task].key < new.tasks[best].key
                if earlier:
                    best = task
            task = new.tasks[task].next
        group = new.groups[group].next
    return best


@kernel
def carry_pilots(new: View, was: Sampled, now: Sampled, apps: I32, old_index: Records) -> None:
    """Find the pilots among the running tasks; tasks that start while pilots are missing become pilots.

    ``apps`` maps old application indices to new ones, -1 for none; ``old_index`` finds tasks in the old tables.
    """
    for old_app in range(len(apps)):
        app = apps[old_app]
        if app < 0 or now.jobs[app].sampling != RUNS_PILOTS:
            continue
        running, group = 0, new.apps[app].first_group
        while group >= 0:
            task = new.groups[group].first
            while task >= 0:
                before = old_task(old_index, new.tasks[task].key, app, old_app)
                if before >= 0 and was.pilot[before]:
                    now.pilot[task] = 1
                    running += 1
                task = new.tasks[task].next
            group = new.groups[group].next
        wanted = now.jobs[app].pilots + now.jobs[app].replacements - now.jobs[app].pilots_ended
        while running < wanted:
            task = oldest_new(old_index, new, now, app, old_app)
            if task < 0:
                break
            now.pilot[task] = 1
            running += 1
        now.jobs[app].pilots_running = running


_COLUMNS: Final = {
    "sampling": "sampling",
    "stage": "sampled_stage",
    "width": "width",
    "pilots": "pilots",
    "ended": "pilots_ended",
    "total_ms": "pilots_ms",
    "squares": "pilots_squares",
    "mean_ms": "pilot_mean_ms",
    "error": "pilot_error",
    "percent": "pilot_percent",
    "since_ms": "sampled_since_ms",
    **{name: name for name in ("sized", "sized_ms", "sized_bytes", "sized_squares", "sized_products")},
    "sized_duration_squares": "sized_duration_squares",
}
"""The columns of `events.Samples` in `JOB`; ``container_ms`` is the application's."""

_SIGNS: Final = ("sampling", "pilots", "pilots_ended", "width")
"""Columns whose change causes a report."""


def restore_samples(event: events.Samples, cluster: Cluster, sampled: Sampled) -> None:
    """Restore samples, except for applications that have ended or that the table has followed for as long.

    Raises:
        ModelError: an invalid number.
    """
    apps, requests, groups, jobs = cluster.apps, cluster.requests, cluster.groups, sampled.jobs
    phases = np.isin(event.sampling, [int(phase) for phase in Sampling])
    counts = (event.width >= 0) & (event.pilots >= 0) & (event.ended >= 0) & (event.stage >= 0)
    times = (event.total_ms >= 0.0) & (event.squares >= 0.0) & (event.mean_ms >= -1.0) & (event.error >= 0.0)
    shares = (event.percent >= 0.0) & (event.container_ms >= 0.0) & (event.sized >= 0) & (event.sized_bytes >= 0.0)
    if not bool((phases & counts & times & shares).all()):
        raise ModelError("Samples has a number that is not possible")
    for at, app in enumerate(event.application.tolist()):
        if apps.at["state"][app] == ApplicationState.GONE or _knows_more(jobs[app], int(event.since_ms[at])):
            continue
        for name, column in _COLUMNS.items():
            jobs[column][app] = getattr(event, name)[at]
        apps.at["container_ms"][app] = event.container_ms[at]
        stage = int(event.stage[at])
        running = _running_of(apps, groups, app, stage)
        _mark_pilots(event, at, sampled, running)
        rows = list(chain(requests.at, apps.at["first_row"][app]))
        asked = [(int(requests.at["priority"][row]), int(requests.at["count"][row])) for row in rows]
        # the samples include repeated tasks
        group = groups.index.find(app, FAILED_MAP)
        jobs["failures"][app] = sum(count for priority, count in asked if priority == FAILED_MAP)
        jobs["failures"][app] += groups.at["running"][group] if group >= 0 else 0
        pending = sum(count for priority, count in asked if belongs_to(stage, priority))
        ended = int(event.width[at]) - len(running) - pending
        if ended > 0:
            _add_ended(event, at, apps, groups, ended)


def _knows_more(job: np.void, since_ms: int) -> bool:
    """Return whether the table has followed an application for at least as long as its samples."""
    return bool(job["sampling"] != Sampling.UNKNOWN and job["sampled_since_ms"] <= since_ms)


def _running_of(apps: ApplicationTable, groups: GroupTable, app: int, stage: int) -> list[int]:
    """Return the running tasks of a stage, in order of their start."""
    running = groups.running(app, apps)
    found = [task for group, task in running if belongs_to(stage, int(groups.at["priority"][group]))]
    return sorted(found, key=lambda task: (*groups.tasks.at[task][["created_ms", "key"]].item(), task))


def _mark_pilots(event: events.Samples, at: int, sampled: Sampled, running: list[int]) -> None:
    """Mark the first running tasks as the pilots in progress; tasks on otherwise idle nodes started later."""
    left = max(0, int(event.pilots[at]) - int(event.ended[at]))
    samples = event.sampling[at] == Sampling.RUNS_PILOTS
    for place, task in enumerate(running):
        sampled.pilot[task] = samples and place < left
    sampled.jobs["pilots_running"][int(event.application[at])] = min(left, len(running)) if samples else 0


def _add_ended(event: events.Samples, at: int, apps: ApplicationTable, groups: GroupTable, ended: int) -> None:
    """Count tasks that ended before the snapshot, each with the pilots' mean duration, if known."""
    total_ms, pilots = float(event.total_ms[at]), int(event.ended[at])
    mean_ms = total_ms / pilots if pilots else float(event.mean_ms[at])
    if mean_ms <= 0.0:
        return
    app, stage = int(event.application[at]), int(event.stage[at])
    priority = MAP if stage == MAPS else 3 * stage - 1
    step = events.filled(
        events.Containers,
        1,
        groups.amounts.shape[1],
        container=-1,
        application=app,
        priority=priority,
        node=-1,
        event=int(ContainerEvent.COMPLETED),
        time_ms=round(mean_ms),
    )
    groups.apply(step, apps, -1)  # creates their group if necessary
    group = groups.index.find(app, priority)
    groups.at["ended"][group] += ended - 1
    groups.at["ended_ms"][group] += round((ended - 1) * mean_ms)


class PilotKeeper(Keeper):
    """The table of a cluster model, and which of its samples are reported."""

    def __init__(self) -> None:
        self.ended_jobs: Records = np.zeros(0, JOB)
        """The rows of applications that had ended when a snapshot arrived, parallel to `Cluster.ended`."""
        self._clear()

    def _clear(self) -> None:
        """Clear all but `ended_jobs`."""
        self.jobs = Table(JOB, (), _DEFAULTS)
        self.pilot: U8 = np.zeros(0, np.uint8)
        self._released: Records = np.zeros(0, SUMS)
        self._reported: dict[str, events.I32] = {}

    def fit(self, cluster: Cluster) -> Sampled:
        """Return the table for kernels, large enough for the model's indices."""
        self.jobs.reserve(len(cluster.apps.at))
        self.pilot = grown(self.pilot, len(cluster.groups.tasks.at), 0)
        self._released = grown(self._released, len(cluster.groups.at), 0)
        return Sampled(self.jobs.at, self.pilot, self._released)

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Process an event after the model."""
        groups = cluster.groups
        match event:
            case events.Containers():
                mapreduce = cluster.names.index_of("MAPREDUCE")
                note_effects(cluster.apps.at, groups.at, self.fit(cluster), groups.effects, mapreduce)
            case events.Applications() if bool((event.state == int(ApplicationState.GONE)).any()):
                dropped = np.flatnonzero(groups.at["application"][: groups.size] < 0)
                self.fit(cluster).ended[dropped] = np.zeros((), SUMS)

    def apply(self, event: events.Samples | events.LearnedState, cluster: Cluster) -> None:
        """Restore the samples of an earlier engine; raises `ModelError` for an invalid number."""
        if not isinstance(event, events.Samples):
            return
        cluster.apps.cover(event.application, "application")
        restore_samples(event, cluster, self.fit(cluster))

    def samples(self, cluster: Cluster) -> events.Samples | None:
        """Return the gate's samples and decisions since the last call; None if nothing has changed."""
        jobs, size = self.fit(cluster).jobs, cluster.apps.size
        now = {name: np.array(jobs[name][:size]) for name in _SIGNS}
        if not now["sampling"].any():
            return None
        different = np.zeros(size, bool)
        for name, values in now.items():
            before = self._reported.get(name, values[:0])
            known = min(len(before), size)
            different[known:] = True
            different[:known] |= values[:known] != before[:known]
        different &= now["sampling"] != Sampling.UNKNOWN
        self._reported = now
        which = np.flatnonzero(different).astype(np.int32)
        columns = {name: np.array(jobs[column][which]) for name, column in _COLUMNS.items()}
        container_ms = np.array(cluster.apps.at["container_ms"][which])
        return events.Samples(application=which, container_ms=container_ms, **columns) if len(which) else None

    def ended(self, cluster: Cluster) -> Records:
        """Return number and durations (ms) of ended tasks in released containers, by group."""
        return self.fit(cluster).ended

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Continue after a snapshot; the next report contains all samples."""
        was, before, groups = self.fit(old), old.view(), new.groups
        self.ended_jobs = was.jobs[carried.ended][: len(new.ended)]
        self._clear()
        groups.make_room(old.groups.size)
        now, view = self.fit(new), new.view()
        live = np.flatnonzero(carried.apps >= 0)
        for column in LEARNED:
            now.jobs[column][carried.apps[live]] = was.jobs[column][live]
        # number of ended tasks in released containers
        index, free, next_unused = groups.index.pairs, groups.free, groups.next_unused
        carry_ended(before, view, was.ended, now.ended, carried.apps, index, free, next_unused)
        groups.size = int(next_unused[0])
        carry_pilots(view, was, now, carried.apps, old.groups.tasks.index.pairs)

"""SLearn's own table beside the model: the state of each job's pilots, and their measurements.

Rows have the model's indices: of ``jobs`` that of the application, of ``pilot`` that of the task, of ``ended`` that of
the group of tasks. `treadle.policy.slearn.keeper` maintains it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, U8, Records
from treadle.compiled.functions import inner, kernel
from treadle.compiled.structs import tables
from treadle.model.cluster import Cluster
from treadle.model.containers import BEGAN, ENDED, ended_well
from treadle.model.tables import Table, grown
from treadle.policy.state import AS_OTHERS, IN_TIME, LEFT_OUT, SUMS
from treadle.yarn.codes import ABORTED, FAILED_MAP, KILLED_BY_APPMASTER, MAP, OPPORTUNISTIC_MAP, PREEMPTED


class Sampling(IntEnum):
    """Where an application stands with the gate that samples tasks (SLearn, NSDI 2022, section 5.1)."""

    UNKNOWN = 0
    RUNS_PILOTS = 1
    OPEN = 2
    THIN = 3


# `Sampling`, as kernels take it.
UNKNOWN: Final = 0
RUNS_PILOTS: Final = 1
OPEN: Final = 2
THIN: Final = 3

MAPS: Final = 0
"""``JOB.sampled_stage`` of a MapReduce job."""

JOB: Final = np.dtype(
    [
        ("sampled_since_ms", "i8"),  # when its pilots began to be wanted
        ("pilots_ms", "f8"),  # sum of the durations of pilots that ended well
        ("pilots_squares", "f8"),  # sum of their squares
        ("pilot_mean_ms", "f8"),  # the pilots' mean of a task when the gate opened; -1: none
        ("pilot_error", "f8"),  # the standard error of its logarithm
        ("sized_ms", "f8"),  # of those pilots that ended well whose input is known: sum of durations,
        ("sized_bytes", "f8"),  # of inputs,
        ("sized_squares", "f8"),  # of the squares of inputs,
        ("sized_products", "f8"),  # of durations times inputs,
        ("sized_duration_squares", "f8"),  # of the squares of durations
        ("pilot_percent", "f8"),  # the sampling ratio; 0: it is not sampled
        ("sampling", "i4"),  # a `Sampling`
        ("sampling_level", "i4"),  # the level of a job whose pilots have not ended, by history; -1: as without
        ("sampled_stage", "i4"),  # `MAPS`; else three of Tez's priorities, up to three times this
        ("width", "i4"),  # tasks of the stage that is sampled, the most that were known of
        ("pilots", "i4"),  # how many tasks are to be sampled
        ("replacements", "i4"),  # how many more, for pilots that hang
        ("pilots_running", "i4"),
        ("pilots_ended", "i4"),  # well
        ("failures", "i4"),  # how many of its maps are made again that had ended as if they were done
        ("ended_badly", "i4"),  # containers of its maps, those that are made again left out
        ("sized", "i4"),  # of these, how many whose input is known
    ],
    align=True,
)
"""What is kept of an application."""


@tables
class Sampled(NamedTuple):
    """The table as kernels take it."""

    jobs: Records
    """`JOB` by application."""
    pilot: U8
    """By task: 1 if it is a pilot. Says nothing of rows where no task runs."""
    ended: Records
    """`treadle.policy.state.SUMS` by group: tasks whose containers were given back, of applications that the gate has
    looked at. The model does not know that these have done their task."""


NONE: Final = Sampled(np.zeros(0, JOB), np.zeros(0, np.uint8), np.zeros(0, SUMS))
"""Where no gate samples."""


def belongs_to(stage: int, priority: int) -> bool:
    """Say whether containers of a priority belong to the stage that is sampled (``JOB.sampled_stage``)."""
    if stage == MAPS:
        return priority in (FAILED_MAP, OPPORTUNISTIC_MAP, MAP)
    return (priority + 2) // 3 == stage


is_of_stage: Final = inner(belongs_to)
"""`belongs_to`, as kernels call it."""


@inner
def note_pilot(sampled: Sampled, app: int, task: int, priority: int) -> None:
    """Take a task that begins for a pilot, if its application still needs one."""
    sampled.pilot[task] = 0
    if sampled.jobs[app].sampling != RUNS_PILOTS or not is_of_stage(sampled.jobs[app].sampled_stage, priority):
        return
    wanted = sampled.jobs[app].pilots + sampled.jobs[app].replacements
    if sampled.jobs[app].pilots_running + sampled.jobs[app].pilots_ended < wanted:
        sampled.pilot[task] = 1
        sampled.jobs[app].pilots_running += 1


@inner
def note_input(jobs: Records, app: int, duration_ms: int, input_bytes: float) -> None:
    """Add up durations and inputs of pilots, as far as their input is known."""
    if input_bytes > 0.0:
        jobs[app].sized += 1
        jobs[app].sized_ms += duration_ms
        jobs[app].sized_bytes += input_bytes
        jobs[app].sized_squares += input_bytes * input_bytes
        jobs[app].sized_products += float(duration_ms) * input_bytes
        jobs[app].sized_duration_squares += float(duration_ms) * float(duration_ms)


@inner
def note_end(apps: Records, groups: Records, sampled: Sampled, effects: Records, i: int, mapreduce: int) -> None:
    """Note a task that has ended; where the gate samples, one whose container is given back has done its task."""
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
    # what was preempted or killed is no failure, after which a map is asked for again
    failed = not well and status != PREEMPTED and status != KILLED_BY_APPMASTER
    if task >= 0 and failed and groups[group].priority in (MAP, OPPORTUNISTIC_MAP):
        sampled.jobs[app].ended_badly += 1


@kernel
def note_effects(apps: Records, groups: Records, sampled: Sampled, effects: Records, mapreduce: int) -> None:
    """Note what container events did (`treadle.model.containers.EFFECT`), in order."""
    for i in range(len(effects)):
        if effects[i].did == BEGAN:
            group = effects[i].group
            note_pilot(sampled, groups[group].application, effects[i].task, groups[group].priority)
        elif effects[i].did == ENDED:
            note_end(apps, groups, sampled, effects, i, mapreduce)


@kernel
def forget_groups(groups: Records, ended: Records) -> None:
    """Forget what has ended of groups of tasks that the model has forgotten."""
    for group in range(len(groups)):
        if groups[group].application < 0:
            ended[group].ended = 0
            ended[group].ended_ms = 0


@kernel
def mark_jobs(jobs: Records, apps: Records, which: I32, sampling_level: int) -> None:
    """Fill ``part``, ``level`` and ``ahead`` of some applications of a decide; pilots run at ``sampling_level``."""
    for app in which:
        sampling = jobs[app].sampling
        apps[app].part = 1.0
        apps[app].level = 0 if sampling == THIN else -1
        apps[app].ahead = IN_TIME if sampling == UNKNOWN else AS_OTHERS
        if sampling == RUNS_PILOTS:
            apps[app].part = jobs[app].pilots / max(jobs[app].width, 1)
            apps[app].level = jobs[app].sampling_level if jobs[app].sampling_level >= 0 else sampling_level
            apps[app].ahead = LEFT_OUT


class PilotTable:
    """The table, for a model of the cluster."""

    def __init__(self) -> None:
        self.gone: Records = np.zeros(0, JOB)
        """The rows of applications that had ended when a snapshot came, as `treadle.model.cluster.Cluster.ended`."""
        self.clear()

    def clear(self) -> None:
        """Forget all but `gone`."""
        self.jobs = Table(JOB, (), {"pilot_mean_ms": -1, "sampling_level": -1})
        self.pilot: U8 = np.zeros(0, np.uint8)
        self.ended: Records = np.zeros(0, SUMS)

    def fit(self, cluster: Cluster) -> Sampled:
        """Return the table as kernels take it, large enough for the model's indices."""
        self.jobs.reserve(len(cluster.apps.at))
        self.pilot = grown(self.pilot, len(cluster.tasks.tasks.at), 0)
        self.ended = grown(self.ended, len(cluster.tasks.at), 0)
        return Sampled(self.jobs.at, self.pilot, self.ended)

    def note(self, cluster: Cluster) -> None:
        """Note what the latest container events did."""
        sampled, tasks = self.fit(cluster), cluster.tasks
        note_effects(cluster.apps.at, tasks.at, sampled, tasks.effects, cluster.names.index_of("MAPREDUCE"))

    def forget(self, cluster: Cluster) -> None:
        """Forget groups of tasks that the model has forgotten."""
        self.fit(cluster)
        forget_groups(cluster.tasks.at[: cluster.tasks.size], self.ended)

    def mark(self, cluster: Cluster, apps: Records, sampling_level: int) -> None:
        """Fill the columns of a decide's applications that other parts read (`treadle.policy.state.APPLICATION`)."""
        mark_jobs(self.fit(cluster).jobs, apps, cluster.apps.in_use(), sampling_level)

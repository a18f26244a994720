"""What a cluster was in at an instant, for a simulation that goes on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.compiled.array_types import Records
from treadle.simulator.build import Built
from treadle.simulator.cluster.resume import STEP, Put
from treadle.simulator.cluster.state import AppState, RowKind


@dataclass(frozen=True, slots=True)
class Held:
    """A container that a task had or has. Times are milliseconds from the simulation's time 0."""

    node: int
    """The place in the simulation's table of nodes."""
    created_ms: int
    begin_ms: int
    """When the task in it began; of one whose input is missing it does not count."""
    end_ms: int = -1
    """-1: it is there still."""


@dataclass(frozen=True, slots=True)
class StageSituation:
    """A stage: its first tasks are those that have begun, in the order of ``containers``."""

    containers: tuple[Held, ...] = ()
    asks: int = 0
    """Containers that are asked for."""


@dataclass(frozen=True, slots=True)
class JobSituation:
    """A job that has come."""

    stands: AppState
    end_ms: int = -1
    """Of one that has ended."""
    master: Held | None = None
    """The container of its application master."""
    registers_ms: int = -1
    """When that registers, or has."""
    stages: Mapping[int, StageSituation] = field(default_factory=dict)
    """By the stage's id."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All of it. Jobs that are not in it come when they come."""

    at_ms: int
    jobs: Mapping[str, JobSituation]
    """By id, in the order in which they came."""


def steps_of(situation: Situation, built: Built) -> Records:
    """Return the steps to put into the tables, in order, of the type `STEP`."""
    places = {job.id: at for at, job in enumerate(built.workload.jobs)}
    found = [step for id_, job in situation.jobs.items() for step in _steps(job, places[id_], built, situation.at_ms)]
    steps = np.zeros(len(found), STEP)
    for at, step in enumerate(found):
        for name, value in step.items():
            steps[name][at] = value
    return steps


def _steps(job: JobSituation, app: int, built: Built, at_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the steps of a job."""
    rows = _rows(app, built)
    if job.stands == AppState.FINISHED:
        yield {"what": Put.ENDED, "app": app, "end_ms": job.end_ms}
        for stage, own in job.stages.items():
            for held in own.containers:
                yield {"what": Put.USED, "row": rows[stage], "created_ms": held.created_ms, "end_ms": held.end_ms}
        if job.master is not None:
            first = int(built.state.apps["first_row"][app])
            yield {"what": Put.USED, "row": first, "created_ms": job.master.created_ms, "end_ms": job.end_ms}
        return
    if job.stands == AppState.PENDING:
        yield {"what": Put.WAITS, "app": app}
        return
    yield {"what": Put.ASKS_MASTER, "app": app}
    running = job.stands == AppState.RUNNING
    if job.master is not None:
        registers_ms = -1 if running else job.registers_ms
        master = {"node": job.master.node, "created_ms": job.master.created_ms, "end_ms": registers_ms}
        yield {"what": Put.MASTER, "app": app, **master}
    if not running:
        return
    yield {"what": Put.REGISTERED, "app": app, "begin_ms": min(job.registers_ms, at_ms)}
    yield from _stages(job, rows, built)
    yield {"what": Put.GOES_ON, "app": app}


def _stages(job: JobSituation, rows: Mapping[int, int], built: Built) -> Iterator[dict[str, Any]]:
    """Yield what was done, before what runs and what is asked for: that is of stages that may have waited for it."""
    for wanted in (Put.DONE, Put.RUNS):
        for stage, own in job.stages.items():
            first = int(built.state.rows["first_task"][rows[stage]])
            for at, held in enumerate(own.containers):
                if (held.end_ms >= 0) == (wanted == Put.DONE):
                    times = {"created_ms": held.created_ms, "begin_ms": held.begin_ms, "end_ms": held.end_ms}
                    yield {"what": wanted, "task": first + at, "node": held.node, **times}
    for stage, own in job.stages.items():
        if own.asks:
            yield {"what": Put.ASKS, "row": rows[stage], "count": own.asks}


def _rows(app: int, built: Built) -> dict[int, int]:
    """Return the row of each stage of a job, by the stage's id."""
    state = built.state
    first = int(state.apps["first_row"][app])
    own = np.arange(first, first + int(state.apps["rows"][app]))
    tasks = own[state.rows["kind"][own] == RowKind.TASKS]
    stages = [stage.id for stage in built.workload.jobs[app].dag.stages if stage.tasks]
    return dict(zip(stages, tasks.tolist(), strict=True))

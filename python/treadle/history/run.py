"""One finished run of a job, as an importer or the live engine tells the store of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from treadle.history.recurrence import RecurrenceKey, storable
from treadle.history.sketch import DurationSketch

NUMBER_MAX: Final = 2**53 - 1
"""Whole numbers up to this one are the same to every reader of JSON; what is said to be larger is taken for it."""

RUN_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")

_APPLICATION: Final = re.compile(r"(?:application|dag)_(\d{1,20})_(\d{1,20})(?:_\d{1,20})?", re.ASCII)


class Measured(StrEnum):
    """What the durations of a stage are of."""

    TASKS = "tasks"
    CONTAINERS = "containers"
    """From a container's start to its end: not a task's time where containers are reused (Tez) or kept (Spark)."""


@dataclass(frozen=True, slots=True, eq=False)
class StageRun:
    """A stage of a finished run."""

    name: str
    """The same in every run of the job: ``map``, ``reduce``, a vertex's name, ``executors``."""
    width: int
    """How many tasks it had; containers where tasks are not known."""
    durations: DurationSketch
    """Of the attempts that succeeded, one for each task."""
    demand: Mapping[str, int] = field(default_factory=dict)
    """What a container asks for, by resource (``memory-mb``, ``vcores``, ...); empty if not known."""
    parents: tuple[str, ...] = ()
    """Names of the stages that feed it."""
    input_bytes: int | None = None
    """Read by all its tasks; None if not known."""
    measured: Measured = Measured.TASKS
    one_to_one: tuple[str, ...] = ()
    """Those of the parents of which task i alone feeds task i."""
    told_ms: int | None = None
    """How long the engine was told, from earlier runs, that a task of it takes; None if it was not told."""
    retried: int | None = None
    """Attempts that failed, or succeeded though their task had before; None if not known."""
    speculative: int | None = None
    """Attempts that were copies of one that was slow; None if not known."""


@dataclass(frozen=True, slots=True, eq=False)
class JobRun:
    """A run of a job that succeeded. Stages are in an order in which parents come first."""

    key: RecurrenceKey
    id: str
    """Of the run: ``application_<cluster timestamp>_<id>``, or the framework's own where YARN was not involved."""
    started_ms: int
    ended_ms: int
    stages: tuple[StageRun, ...]


def storable_run(run: JobRun, now_ms: int) -> JobRun:
    """Return a run as a store can hold it: texts and numbers within bounds, and ended by now."""
    name = run.id
    if not RUN_ID.fullmatch(name):
        name = f"sha256:{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"
    ended_ms = _bounded(min(run.ended_ms, now_ms))
    # a name is told with each edge that leaves it: a hundred times what it is, of a stage that feeds so many
    names: dict[str, str] = {}

    def stored(name: str) -> str:
        if name not in names:
            names[name] = storable(name)
        return names[name]

    stages = tuple(
        replace(
            stage,
            name=stored(stage.name),
            width=_bounded(stage.width),
            demand={storable(resource): _bounded(amount) for resource, amount in stage.demand.items()},
            parents=tuple(stored(parent) for parent in stage.parents),
            one_to_one=tuple(stored(parent) for parent in stage.one_to_one),
            input_bytes=None if stage.input_bytes is None else _bounded(stage.input_bytes),
            told_ms=None if stage.told_ms is None else _bounded(stage.told_ms),
            retried=None if stage.retried is None else _bounded(stage.retried),
            speculative=None if stage.speculative is None else _bounded(stage.speculative),
        )
        for stage in run.stages
    )
    key = RecurrenceKey(*map(storable, run.key))
    return JobRun(key, name, min(_bounded(run.started_ms), ended_ms), ended_ms, stages)


def application_of_run(run: str) -> str:
    """Return YARN's id of the application that a run is of, by the run's id; empty if it is of none."""
    match = _APPLICATION.fullmatch(run)
    return f"application_{match[1]}_{match[2]}" if match else ""


def size_of_run(run: JobRun) -> int:
    """Return about how many bytes a run takes in memory: a name that several stages tell counts once."""
    stages = sum(
        700 + 2 * len(stage.name) + 16 * (len(stage.parents) + len(stage.one_to_one)) + 100 * len(stage.demand)
        for stage in run.stages
    )
    return stages + 110 * sum(stage.durations.buckets for stage in run.stages)


def _bounded(number: int) -> int:
    return max(0, min(int(number), NUMBER_MAX))

"""What the testbed plays: jobs as their users submit them, and what their application masters ask for, as JSON.

`io.treadle.sls.ScriptedMaster` asks by priority as MapReduce and Tez do: a stage when those before it have ended,
anywhere in the cluster, a container for each task. It uses no container again. Where `Scheduling.settings` name a plan
listener, a Tez job's master asks it for a plan, as Treadle's plug-in in Tez does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.dag.dag import Dag
from treadle.errors import UserError
from treadle.yarn.priorities import MAP, REDUCE
from treadle_lab.harness.sleeping_dags import vertex_name

__all__ = ["Script", "ScriptedJob", "TaskStage", "map_reduce", "stages_of"]

REQUIRE: Final = "treadle:require="
LEAST_MS: Final = 1


@dataclass(frozen=True, slots=True)
class TaskStage:
    """Tasks that ask for the same, with one priority."""

    priority: int
    resources: Mapping[str, int]
    durations_ms: tuple[int, ...]
    after: tuple[int, ...] = ()
    """Which stages must have ended before it asks, by their places in the job."""
    name: str = ""
    """What the plan listener knows it by; empty where nobody asks for plans."""


@dataclass(frozen=True, slots=True)
class ScriptedJob:
    """A job."""

    name: str
    at_ms: int
    stages: tuple[TaskStage, ...]
    type: str = "MAPREDUCE"
    user: str = "ann"
    queue: str = "default"
    master_mb: int = 1024
    tags: tuple[str, ...] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    """What its tasks' nodes must be: attributes and their values. Said to the ResourceManager by a tag."""

    @property
    def work_ms(self) -> int:
        """The time that its tasks take together."""
        return sum(sum(stage.durations_ms) for stage in self.stages)

    @property
    def all_tags(self) -> tuple[str, ...]:
        """Its tags, and the one that says what it requires."""
        required = ";".join(f"{name}={value}" for name, value in self.requires.items())
        return (*self.tags, f"{REQUIRE}{required}") if required else self.tags


@dataclass(frozen=True, slots=True)
class Script:
    """Jobs, and the attributes of nodes that have any, by host."""

    jobs: tuple[ScriptedJob, ...]
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [job.name for job in self.jobs]
        if not names or len(set(names)) != len(names):
            raise UserError("a script needs jobs, and no two of one name")
        for job in self.jobs:
            _check(job)

    @property
    def tasks(self) -> int:
        """How many tasks all jobs have."""
        return sum(len(stage.durations_ms) for job in self.jobs for stage in job.stages)

    def as_json(self) -> dict[str, Any]:
        """Return what the file has that the simulated application masters read."""
        return {"attributes": self.attributes, "jobs": [_written(job) for job in self.jobs]}

    def write(self, file: Path) -> None:
        """Write that file."""
        file.write_text(json.dumps(self.as_json()))


def _check(job: ScriptedJob) -> None:
    asked: dict[int, Mapping[str, int]] = {}
    if job.at_ms < 0 or not job.stages:
        raise UserError(f"job {job.name}: at_ms must not be negative, and there must be a stage")
    for number, stage in enumerate(job.stages):
        if not stage.durations_ms or min(stage.durations_ms) < LEAST_MS:
            raise UserError(f"job {job.name}: stage {number} needs tasks, of {LEAST_MS} ms or more")
        if any(not 0 <= before < number for before in stage.after):
            raise UserError(f"job {job.name}: stage {number} comes after {stage.after}; these must come before it")
        if asked.setdefault(stage.priority, stage.resources) != stage.resources:
            raise UserError(
                f"job {job.name}: two stages of priority {stage.priority} ask for different resources; "
                "a ResourceManager keeps one ask for each priority"
            )


def _written(job: ScriptedJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "user": job.user,
        "queue": job.queue,
        "type": job.type,
        "at_ms": job.at_ms,
        "master_mb": job.master_mb,
        "tags": list(job.all_tags),
        "requires": dict(job.requires),
        "stages": [
            {
                "name": stage.name,
                "priority": stage.priority,
                "resources": dict(stage.resources),
                "durations_ms": list(stage.durations_ms),
                "after": list(stage.after),
            }
            for stage in job.stages
        ],
    }


def map_reduce(
    maps_ms: Iterable[int], resources: Mapping[str, int], reduces_ms: Iterable[int] = ()
) -> tuple[TaskStage, ...]:
    """Return the stages of a MapReduce job: maps, and reduces after them, with its application master's priorities."""
    stages = [TaskStage(MAP, resources, tuple(maps_ms))]
    if reduces := tuple(reduces_ms):
        stages.append(TaskStage(REDUCE, resources, reduces, (0,)))
    return tuple(stages)


def stages_of(dag: Dag, order: Sequence[int] | None = None, *, times: float = 1.0) -> tuple[TaskStage, ...]:
    """Return the stages of a Tez job with the priorities of its application master, which gives each vertex a band.

    Args:
        dag: its stages, parents first.
        order: ids of all stages, the first to run first; None for Tez's own order, by distance from the roots.
        times: what durations are multiplied with.
    """
    place = {stage.id: number for number, stage in enumerate(dag.stages)}
    depth: dict[int, int] = {}
    for stage in dag.stages:
        depth[stage.id] = max((depth[parent] + 1 for parent in stage.parents), default=0)
    band = {id_: (depth[id_] + 1) * len(place) + number for id_, number in place.items()}
    if order is not None:
        band = {id_: number + 1 for number, id_ in enumerate(order)}
    return tuple(
        TaskStage(
            3 * band[stage.id] - 1,
            {name: max(1, round(amount)) for name, amount in stage.demand.items()},
            tuple(max(LEAST_MS, round(times * each)) for each in np.asarray(stage.durations()).tolist()),
            tuple(place[parent] for parent in stage.parents),
            vertex_name(stage),
        )
        for stage in dag.stages
    )

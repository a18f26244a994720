"""DAGs from what is known of jobs: of runs, of the next run of a recurring one, and of Tez's own plan.

Tez writes its plan to the file ``tez-dag.pb`` among the resources of an application master (Tez 0.10.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median_low
from typing import Any, Final, TypeVar

from treadle.dag import Dag, DagError, Stage, ordered
from treadle.errors import UserError, install_extra
from treadle.history.profile import JobProfile, JobRun, Measured, RecentRun, StageProfile, StageRun

FILE_BYTES_MAX: Final = 256 << 20

SCHEMA: Final = """
name: "treadle/tez_plan.proto" package: "treadle.tez" syntax: "proto2"
message_type {
  name: "DAGPlan"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "vertex" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".treadle.tez.VertexPlan" }
  field { name: "edge" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".treadle.tez.EdgePlan" }
}
message_type {
  name: "VertexPlan"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "taskConfig" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".treadle.tez.TaskConfig" }
}
message_type {
  name: "TaskConfig"
  field { name: "numTasks" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "-1" }
  field { name: "memoryMb" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "virtualCores" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
message_type {
  name: "EdgePlan"
  field { name: "inputVertexName" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "outputVertexName" number: 3 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "dataMovementType" number: 4 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "-1" }
}
"""
"""What is read of ``DAGApiRecords.proto``: its names and numbers. Names are bytes: invalid UTF-8 is reported."""

ONE_TO_ONE: Final = 0
"""Of ``PlanEdgeDataMovementType``."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex as it was submitted."""

    name: str
    tasks: int | None
    """None: known only once its input has been looked at."""
    memory_mb: int
    vcores: int


@dataclass(frozen=True, slots=True)
class Edge:
    """Data that goes from one vertex to another."""

    source: str
    target: str
    one_to_one: bool
    """Task i of the one feeds task i of the other alone."""


@dataclass(frozen=True, slots=True)
class TezPlan:
    """A DAG as it was submitted: without durations, and not all of its vertices need know how many tasks they have."""

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]


def read_tez_plan(path: Path) -> TezPlan:
    """Read a ``tez-dag.pb``.

    Raises:
        DagError: it cannot be read, or is none.
        UserError: the library that reads it is missing.
    """
    dag_plan = plan_class()
    from google.protobuf.message import DecodeError

    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise DagError(f"{path}: larger than {FILE_BYTES_MAX} bytes; give a tez-dag.pb")
        content = path.read_bytes()
    except OSError as error:
        raise DagError(f"{path}: {error.strerror or error}; give the path of a readable file") from None
    try:
        message = dag_plan.FromString(content)
        message.DiscardUnknownFields()
        return _plan(message)
    except (DecodeError, ValueError) as error:
        raise DagError(f"{path}: no DAGPlan of Tez's ({error}); give a tez-dag.pb") from None


@cache
def plan_class() -> Any:
    """Return the class of ``DAGPlan``, with the fields of `SCHEMA`."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format  # only here: an extra
    except ImportError:
        raise UserError(f"a tez-dag.pb needs protobuf; {install_extra('history')}") from None
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("treadle.tez.DAGPlan"))


def _plan(message: Any) -> TezPlan:
    if not message.vertex:
        raise ValueError("it has no vertices")
    vertices = tuple(_vertex(one) for one in message.vertex)
    edges = tuple(
        Edge(str(one.inputVertexName, "utf-8"), str(one.outputVertexName, "utf-8"), one.dataMovementType == ONE_TO_ONE)
        for one in message.edge
    )
    return TezPlan(str(message.name, "utf-8"), vertices, edges)


def _vertex(message: Any) -> Vertex:
    config = message.taskConfig
    return Vertex(
        str(message.name, "utf-8"),
        config.numTasks if config.numTasks >= 0 else None,
        max(0, config.memoryMb),
        max(0, config.virtualCores),
    )


SHOWN_BY: Final = 3
"""How many runs must show how a stage grows with its input; their inputs must differ by `INPUT_FACTOR`."""
INPUT_FACTOR: Final = 1.25
ALIKE_FACTOR: Final = 2.0
"""Runs are alike if no stage is wider than in another by more than this."""


_S = TypeVar("_S", StageRun, StageProfile)


@dataclass(frozen=True, slots=True, eq=False)
class _Expected:
    """A stage by name."""

    name: str
    tasks: int
    duration_ms: int
    demand: Mapping[str, float]
    parents: Sequence[str]
    one_to_one: Sequence[str]


def dag_of_run(run: JobRun, otherwise: Mapping[str, float]) -> Dag:
    """Return a run that has ended as a DAG, named after job and run.

    Args:
        run: as an importer read it
        otherwise: what a task asks for, by resource, in stages of which that is not known

    Raises:
        DagError: no stage's tasks were measured, or the edges are not known.
    """
    name = f"{run.key.name} {run.id}".strip()
    share = _share_of_executor(run.stages)
    found = []
    for stage in _measured(name, run.stages):
        if not stage.durations.count and stage.width:
            raise DagError(f"DAG {name}: stage {stage.name}: no task was seen to end well; import another run")
        duration_ms = round(stage.durations.mean_ms) if stage.durations.count else 0
        demand = stage.demand or share or otherwise
        found.append(_Expected(stage.name, stage.width, duration_ms, demand, stage.parents, stage.one_to_one))
    return _dag(name, found)


def dag_of_profile(profile: JobProfile, otherwise: Mapping[str, float], input_bytes: int | None = None) -> Dag:
    """Return the DAG that the next run of a recurring job is expected to have.

    Args:
        profile: what is known of it
        otherwise: as in `dag_of_run`
        input_bytes: of the stages without parents together; None: as large as usual

    Raises:
        DagError: as `dag_of_run`; also if ``input_bytes`` is given, and those of earlier runs are not known.
    """
    name = profile.key.name or "(no name)"
    stages = _measured(name, latest_stages(profile))
    share = _share_of_executor(profile.stages)
    factor = 1.0 if input_bytes is None else _factor(name, stages, input_bytes)
    found = []
    for stage in stages:
        tasks, duration_ms = _scaled(name, stage, factor)
        demand = stage.demand or share or otherwise
        found.append(_Expected(stage.name, tasks, duration_ms, demand, stage.parents, stage.one_to_one))
    return _dag(name, found)


def dag_of_tez_plan(plan: TezPlan, profile: JobProfile | None, duration_ms: int | None) -> Dag:
    """Return a DAG that has been submitted to Tez, with the durations that its vertices had before.

    Args:
        plan: stages, edges and demands; it may leave the number of tasks open
        profile: of the earlier runs of this DAG, stages called by the names of the vertices; None: not known
        duration_ms: of a task of a vertex that never ran; None: that is an error

    Raises:
        DagError: a duration or a number of tasks is known to nobody, or the edges contradict each other.
    """
    known = {stage.name: stage for stage in profile.stages} if profile else {}
    vertices = {vertex.name for vertex in plan.vertices}
    for edge in plan.edges:
        if not {edge.source, edge.target} <= vertices:
            raise DagError(f"DAG {plan.name}: an edge from {edge.source} to {edge.target}, which are not both vertices")
    found = []
    for vertex in plan.vertices:
        where = f"DAG {plan.name}: vertex {vertex.name}"
        before = known.get(vertex.name)
        took_ms = _usual_ms(before) if before is not None else None
        if took_ms is None and duration_ms is None:
            raise DagError(f"{where}: how long its tasks run is not known; name a store, or give --duration-ms")
        width = vertex.tasks if vertex.tasks is not None else before.width if before is not None else None
        if width is None:
            raise DagError(f"{where}: the number of its tasks is open, and no earlier run is known; name a store")
        into = [edge for edge in plan.edges if edge.target == vertex.name]
        found.append(
            _Expected(
                vertex.name,
                width,
                took_ms if took_ms is not None else duration_ms or 0,
                {"memory-mb": float(vertex.memory_mb), "vcores": float(vertex.vcores)},
                [edge.source for edge in into],
                [edge.source for edge in into if edge.one_to_one],
            )
        )
    return _dag(plan.name, found)


def latest_stages(profile: JobProfile) -> tuple[StageProfile, ...]:
    """Return the stages that the latest run of a job had; of those whose tasks were measured, if there are any."""
    runs = _runs_by_tasks(profile)
    if not runs:
        return profile.stages
    return tuple(stage for stage in profile.stages if any(run.run == runs[-1] for run in stage.recent))


def _runs_by_tasks(profile: JobProfile) -> list[str]:
    """Return the ids of the remembered runs of which tasks were measured, oldest first; of all if none was."""
    runs = [run for _, run, _ in profile.recent]
    of_tasks = {recent.run for stage in profile.stages if stage.measured is Measured.TASKS for recent in stage.recent}
    return [run for run in runs if run in of_tasks] or runs


def runs_alike(profile: JobProfile) -> int:
    """Return how many of the remembered runs had the stages of the latest, none wider or narrower by `ALIKE_FACTOR`.

    Plan only by a profile of two runs or more: names may be equal by chance.
    """
    runs = _runs_by_tasks(profile)
    if not runs:
        return 0
    shapes: dict[str, dict[str, int]] = {run: {} for run in runs}
    for stage in profile.stages:
        for recent in stage.recent:
            if recent.run in shapes:
                shapes[recent.run][stage.name] = recent.width
    latest = shapes[runs[-1]]
    return sum(_is_alike(shape, latest) for shape in shapes.values())


def _is_alike(shape: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return shape.keys() == other.keys() and all(
        max(width, other[name]) <= ALIKE_FACTOR * min(width, other[name]) for name, width in shape.items()
    )


def _measured(name: str, stages: Sequence[_S]) -> list[_S]:
    """Return the stages that are of tasks; where none is, those of containers.

    Raises:
        DagError: there is none, or there are several of which only containers were seen, and not what feeds what.
    """
    of_tasks = [stage for stage in stages if stage.measured is Measured.TASKS]
    found = of_tasks or list(stages)
    if not found:
        raise DagError(f"DAG {name}: no stage of it is known")
    if not of_tasks and len(found) > 1 and not any(stage.parents for stage in found):
        raise DagError(f"DAG {name}: which stages feed which was not seen; import a history of the job")
    return found


def _share_of_executor(stages: Iterable[StageRun | StageProfile]) -> dict[str, float] | None:
    """Return what a task of Spark takes of its executor: one core, and as much of all else; None without executors."""
    for stage in stages:
        cores = stage.demand.get("vcores", 0)
        if stage.measured is Measured.CONTAINERS and cores > 0:
            return {resource: amount / cores for resource, amount in stage.demand.items()}
    return None


def _factor(name: str, stages: Sequence[StageProfile], input_bytes: int) -> float:
    """Return by how much the job's input is larger than usual."""
    usual = sum(stage.input_bytes or 0 for stage in stages if not stage.parents)
    if usual <= 0:
        raise DagError(f"DAG {name}: how much its earlier runs read is not known; leave the size of the input out")
    return input_bytes / usual


def _scaled(name: str, stage: StageProfile, factor: float) -> tuple[int, int]:
    """Return a stage's width and a task's duration where the job's input is ``factor`` times as large as usual."""
    usual_ms = _usual_ms(stage)
    if usual_ms is None:
        if stage.width:
            raise DagError(f"DAG {name}: stage {stage.name}: how long its tasks run is not known; import a history")
        usual_ms = 0
    if factor == 1.0:
        return stage.width, usual_ms
    wider = _growth(stage.recent, lambda run: run.width)
    longer = _growth(stage.recent, lambda run: run.mean_ms)
    if wider is None or longer is None:
        # Splits are of one size: what reads them gets wider. What reads a shuffle has as many tasks as before.
        wider, longer = (0.0, 1.0) if stage.parents else (1.0, 0.0)
    tasks = max(1, round(stage.width * factor**wider)) if stage.width else 0
    return tasks, round(usual_ms * factor**longer)


def _growth(recent: Sequence[RecentRun], of: Callable[[RecentRun], int]) -> float | None:
    """Return the power of the input, from 0 to 1, with which something grew; None if the runs do not show it."""
    points = [(math.log(run.input_bytes), math.log(of(run))) for run in recent if run.input_bytes > 0 and of(run) > 0]
    if len(points) < SHOWN_BY:
        return None
    inputs = [x for x, _ in points]
    if max(inputs) - min(inputs) < math.log(INPUT_FACTOR):
        return None
    middle_x, middle_y = (math.fsum(values) / len(points) for values in zip(*points, strict=True))
    slope = math.fsum((x - middle_x) * (y - middle_y) for x, y in points)
    return min(1.0, max(0.0, slope / math.fsum((x - middle_x) ** 2 for x in inputs)))


def _usual_ms(stage: StageProfile) -> int | None:
    """Return the median over the remembered runs of a task's mean duration; None if none was measured."""
    means = [run.mean_ms for run in stage.recent if run.mean_ms >= 0]
    if means:
        return median_low(means)
    return round(stage.durations.mean_ms) if stage.durations.count else None


def _dag(name: str, stages: Sequence[_Expected]) -> Dag:
    """Return the DAG of stages that know each other by name; a parent that had no tasks worth a stage feeds nothing."""
    ids = {stage.name: at for at, stage in enumerate(stages)}
    made = []
    for at, stage in enumerate(stages):
        parents = [ids[parent] for parent in dict.fromkeys(stage.parents) if ids.get(parent, at) != at]
        single = frozenset(
            ids[parent]
            for parent in stage.one_to_one
            if ids.get(parent) in parents and stages[ids[parent]].tasks == stage.tasks
        )
        made.append(
            Stage(
                at,
                stage.tasks,
                stage.duration_ms,
                {resource: float(amount) for resource, amount in stage.demand.items()},
                tuple(parents),
                single,
                name=stage.name,
            )
        )
    return ordered(name, tuple(made))

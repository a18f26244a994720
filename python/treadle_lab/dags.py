"""DAGs to plan, each with its machines: read from files, one JSON object a line (docs/graphene.md), or drawn at random.

Drawn ones are of the kind that production clusters run (Graphene, section 2.2) and greedy schedulers do badly on: tens
of stages in layers. Some stages are small and long, the others wide and short; some ask for so much of one resource
that a machine runs one or two of their tasks and has room left that only tasks of other stages can use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.dag import MACHINES_MAX, Dag, DagError, DagLine, Line, Stage, check_fits, checked, ordered
from treadle.workload.reading import read_values


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One planning problem: a DAG on ``machines`` identical machines, each with ``capacity`` of every resource."""

    dag: Dag
    capacity: Mapping[str, float]
    machines: int
    in_space: bool = False
    """Whether plans are compared by the planned schedule, as those of projects are; else by what follows the ranks."""

    def __post_init__(self) -> None:
        check_fits(self.dag, self.capacity, self.machines)


RESOURCES = ("cpu", "memory", "network")


MOST: Final = {"depth": 10_000, "stages": 10_000, "tasks": 10_000_000, "duration_ms": 10**9}


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameters of generated DAGs."""

    machines: int = 8
    depth: tuple[int, int] = (5, 9)
    """Least and greatest number of layers."""
    stages: tuple[int, int] = (20, 50)
    tasks: tuple[int, int] = (1000, 3000)
    """Approximate number of tasks of the whole DAG."""
    long_share: float = 0.25
    """Fraction of the stages that are small, and ten to twenty times as long as the others."""
    fragmenting_share: float = 0.5
    """Fraction of the stages whose tasks need 34 to 65 per cent of a machine in one resource."""
    duration_ms: tuple[int, int] = (1000, 5000)
    """Duration of a task that is not long."""

    def __post_init__(self) -> None:
        for name in ("depth", "stages", "tasks", "duration_ms"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= MOST[name]:
                raise DagError(f"{name}: {low}..{high}; give two numbers from 1 to {MOST[name]}, the lesser first")
        if self.stages[0] < self.depth[1]:
            raise DagError(f"stages: at least {self.stages[0]}, but up to {self.depth[1]} layers; give more stages")
        if not 1 <= self.machines <= MACHINES_MAX:
            raise DagError(f"machines: {self.machines}; give 1 to {MACHINES_MAX}")


def generate(seed: int, shape: Shape | None = None) -> Instance:
    """Return the DAG of a seed, named after it; machines have 1.0 of each resource."""
    shape = shape or Shape()
    random = np.random.default_rng(seed)
    count = int(random.integers(shape.stages[0], shape.stages[1] + 1))
    layers = _layers(random, count, int(random.integers(shape.depth[0], shape.depth[1] + 1)))
    parents = _parents(random, layers)
    is_long = random.random(count) < shape.long_share
    tasks = _tasks(random, is_long, int(random.integers(shape.tasks[0], shape.tasks[1] + 1)), shape.machines)
    stages = []
    for at in range(count):
        duration = int(random.integers(shape.duration_ms[0], shape.duration_ms[1] + 1))
        if is_long[at]:
            duration = int(duration * random.uniform(10.0, 20.0))
        demand = demand_of(random, bool(random.random() < shape.fragmenting_share))
        stages.append(Stage(at, int(tasks[at]), duration, demand, parents[at]))
    return Instance(Dag(f"generated-{seed}", tuple(stages)), dict.fromkeys(RESOURCES, 1.0), shape.machines)


def _layers(random: np.random.Generator, count: int, depth: int) -> npt.NDArray[np.int64]:
    """Return each stage's layer, sorted; every layer has a stage."""
    free = random.integers(0, depth, count - depth)
    return np.sort(np.concatenate((np.arange(depth), free)).astype(np.int64))


def _parents(random: np.random.Generator, layers: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return one to three parents each, most in the layer above, at least one there: so the depth is as drawn."""
    parents: list[tuple[int, ...]] = []
    for layer in layers:
        above = np.flatnonzero(layers == layer - 1)
        earlier = np.flatnonzero(layers < layer - 1)
        if not len(above):
            parents.append(())
            continue
        chosen = {int(random.choice(above))}
        for _ in range(int(random.integers(0, 3))):
            pool = earlier if len(earlier) and random.random() < 0.25 else above
            chosen.add(int(random.choice(pool)))
        parents.append(tuple(sorted(chosen)))
    return parents


def _tasks(
    random: np.random.Generator, is_long: npt.NDArray[np.bool_], total: int, machines: int
) -> npt.NDArray[np.int64]:
    """Return tasks by stage: long stages have at most one a machine, the others share the rest, unevenly."""
    small = random.integers(1, max(2, machines // 2 + 1), len(is_long))
    weights = np.where(is_long, 0.0, random.lognormal(0.0, 0.7, len(is_long)))
    wide = np.maximum(1, np.round(total * weights / max(weights.sum(), 1e-9)))
    return np.where(is_long, small, wide).astype(np.int64)


def demand_of(random: np.random.Generator, fragmenting: bool) -> dict[str, float]:
    """Return the demand of a task: little of every resource, or much of one and little of the others."""
    if not fragmenting:
        return {name: float(random.choice((0.05, 0.1, 0.125, 0.2, 0.25))) for name in RESOURCES}
    much = int(random.integers(0, len(RESOURCES)))
    return {
        name: round(float(random.uniform(0.34, 0.65) if at == much else random.uniform(0.02, 0.2)), 3)
        for at, name in enumerate(RESOURCES)
    }


Model = TypeVar("Model", bound=Line)


def instances_of(
    path: Path, model: type[Model], built: Callable[[Model], Instance], **given: Any
) -> Iterator[Instance]:
    """Yield the instances of a file, one JSON object each; it may be compressed.

    Args:
        path: the file
        model: what an object is
        built: returns its instance
        given: fields that replace those of the file

    Raises:
        WorkloadError: the file cannot be read, or is not JSON.
        DagError: it has no object, or one is wrong; names the file, the line, the field and the remedy.
    """
    objects = 0
    for number, values in read_values(path):
        objects += 1
        where = f"{path}:{number}"
        if not isinstance(values, dict):
            raise DagError(f"{where}: not a JSON object; write one JSON object a line")
        line = checked(model, where, values | given)
        try:
            yield built(line)
        except DagError as error:
            raise DagError(f"{where}: {error}") from None
    if not objects:
        raise DagError(f"{path}: empty; write one JSON object a line (docs/graphene.md)")


def read_instances(path: Path, machines: int | None = None) -> Iterator[Instance]:
    """Yield the DAGs of a file, as `instances_of`; ``machines`` replaces the numbers in the lines."""

    def built(line: DagLine) -> Instance:
        dag = ordered(line.name, tuple(stage.stage() for stage in line.stages))
        return Instance(dag, line.capacity, line.machines)

    return instances_of(path, DagLine, built, **({} if machines is None else {"machines": machines}))


def write_instances(instances: Iterable[Instance], stream: TextIO) -> None:
    """Write DAGs so that `read_instances` returns the same; single task durations are not kept."""
    for instance in instances:
        stages = [_stage_json(stage) for stage in instance.dag.stages]
        line = {
            "name": instance.dag.name,
            "machines": instance.machines,
            "capacity": dict(instance.capacity),
            "stages": stages,
        }
        stream.write(json.dumps(line) + "\n")


def _stage_json(stage: Stage) -> dict[str, object]:
    values: dict[str, object] = {
        "id": stage.id,
        "tasks": stage.tasks,
        "duration_ms": stage.duration_ms,
        "demand": dict(stage.demand),
        "parents": list(stage.parents),
    }
    if stage.one_to_one:
        values["one_to_one"] = sorted(stage.one_to_one)
    if stage.name:
        values["name"] = stage.name
    return values

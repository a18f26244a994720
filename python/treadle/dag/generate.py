"""Random DAGs of the kind that production clusters run (Graphene, section 2.2) and greedy schedulers do badly on.

A DAG is tens of stages in layers. Some stages are small and long, the others wide and short; some ask for so much of
one resource that a machine runs one or two of their tasks and has room left that only tasks of other stages can use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.dag.dag import MACHINES_MAX, Dag, DagError, Instance, Stage

RESOURCES = ("cpu", "memory", "network")

MOST: Final = {"depth": 10_000, "stages": 10_000, "tasks": 10_000_000, "duration_ms": 10**9}


@dataclass(frozen=True, slots=True)
class Shape:
    """What generated DAGs look like."""

    machines: int = 8
    depth: tuple[int, int] = (5, 9)
    """Least and greatest number of layers."""
    stages: tuple[int, int] = (20, 50)
    tasks: tuple[int, int] = (1000, 3000)
    """Of the whole DAG, about."""
    long_share: float = 0.25
    """Of the stages: small, and ten to twenty times as long as the others."""
    fragmenting_share: float = 0.5
    """Of the stages: their tasks need 34 to 65 per cent of a machine in one resource."""
    duration_ms: tuple[int, int] = (1000, 5000)
    """Of a task that is not long."""
    one_to_one_share: float = 0.0
    """Of the stages behind others: they have as many tasks as the one parent left to them, each waits for its own."""
    resources: tuple[str, ...] = RESOURCES
    """What tasks ask for."""

    def __post_init__(self) -> None:
        for name in ("depth", "stages", "tasks", "duration_ms"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= MOST[name]:
                raise DagError(f"{name}: {low}..{high}; give two numbers from 1 to {MOST[name]}, the lesser first")
        if self.stages[0] < self.depth[1]:
            raise DagError(f"stages: at least {self.stages[0]}, but up to {self.depth[1]} layers; give more stages")
        if not 1 <= self.machines <= MACHINES_MAX:
            raise DagError(f"machines: {self.machines}; give 1 to {MACHINES_MAX}")
        for name in ("long_share", "fragmenting_share", "one_to_one_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise DagError(f"{name}: {getattr(self, name)}; give a number from 0 to 1")


def generate(seed: int, shape: Shape | None = None) -> Instance:
    """Return the DAG of a seed, named after it; machines have 1.0 of each resource."""
    shape = shape or Shape()
    random = np.random.default_rng(seed)
    count = int(random.integers(shape.stages[0], shape.stages[1] + 1))
    layers = _layers(random, count, int(random.integers(shape.depth[0], shape.depth[1] + 1)))
    parents = _parents(random, layers)
    is_long = random.random(count) < shape.long_share
    tasks = _tasks(random, is_long, int(random.integers(shape.tasks[0], shape.tasks[1] + 1)), shape.machines)
    paired = _pair(random, shape.one_to_one_share, layers, parents, tasks, is_long)
    stages = []
    for at in range(count):
        duration = int(random.integers(shape.duration_ms[0], shape.duration_ms[1] + 1))
        if is_long[at]:
            duration = int(duration * random.uniform(10.0, 20.0))
        demand = demand_of(random, bool(random.random() < shape.fragmenting_share), shape.resources)
        stages.append(Stage(at, int(tasks[at]), duration, demand, parents[at], paired[at]))
    return Instance(Dag(f"generated-{seed}", tuple(stages)), dict.fromkeys(shape.resources, 1.0), shape.machines)


def _layers(random: np.random.Generator, count: int, depth: int) -> npt.NDArray[np.int64]:
    """Return each stage's layer, sorted; every layer has a stage."""
    free = random.integers(0, depth, count - depth)
    return np.sort(np.concatenate((np.arange(depth), free)).astype(np.int64))


def _parents(random: np.random.Generator, layers: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return one to three parents each, most in the layer above, at least one there: so the depth is as drawn."""
    found: list[tuple[int, ...]] = []
    for layer in layers:
        above = np.flatnonzero(layers == layer - 1)
        earlier = np.flatnonzero(layers < layer - 1)
        if not len(above):
            found.append(())
            continue
        chosen = {int(random.choice(above))}
        for _ in range(int(random.integers(0, 3))):
            pool = earlier if len(earlier) and random.random() < 0.25 else above
            chosen.add(int(random.choice(pool)))
        found.append(tuple(sorted(chosen)))
    return found


def _tasks(
    random: np.random.Generator, is_long: npt.NDArray[np.bool_], total: int, machines: int
) -> npt.NDArray[np.int64]:
    """Return tasks by stage: long stages have at most one a machine, the others share the rest, unevenly."""
    small = random.integers(1, max(2, machines // 2 + 1), len(is_long))
    weights = np.where(is_long, 0.0, random.lognormal(0.0, 0.7, len(is_long)))
    wide = np.maximum(1, np.round(total * weights / max(weights.sum(), 1e-9)))
    return np.where(is_long, small, wide).astype(np.int64)


def _pair(
    random: np.random.Generator,
    share: float,
    layers: npt.NDArray[np.int64],
    parents: list[tuple[int, ...]],
    tasks: npt.NDArray[np.int64],
    is_long: npt.NDArray[np.bool_],
) -> list[frozenset[int]]:
    """Let a share of the stages follow one parent of the layer above one to one; return whom each follows.

    Such a stage has its parent's number of tasks, and is long only if the parent is. A share of 0 draws nothing.
    """
    paired: list[frozenset[int]] = [frozenset()] * len(parents)
    for at, before in enumerate(parents):
        if share == 0.0 or not before or random.random() >= share:
            continue
        parent = max(each for each in before if layers[each] == layers[at] - 1)
        parents[at], paired[at] = (parent,), frozenset({parent})
        tasks[at] = tasks[parent]
        is_long[at] &= is_long[parent]
    return paired


def demand_of(
    random: np.random.Generator, fragmenting: bool, resources: tuple[str, ...] = RESOURCES
) -> dict[str, float]:
    """Return what a task asks for: little of everything, or much of one resource and little of the others."""
    if not fragmenting:
        return {name: float(random.choice((0.05, 0.1, 0.125, 0.2, 0.25))) for name in resources}
    much = int(random.integers(0, len(resources)))
    return {
        name: round(float(random.uniform(0.34, 0.65) if at == much else random.uniform(0.02, 0.2)), 3)
        for at, name in enumerate(resources)
    }

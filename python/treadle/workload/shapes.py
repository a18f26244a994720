"""What a generated job looks like: a shape draws a DAG; anything else that does can stand in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.workload.distributions import BoundedPareto, Distribution, Lognormal, whole
from treadle.workload.traces.errors import WorkloadError

CONTAINER: Final[Mapping[str, float]] = {"memory-mb": 1024.0, "vcores": 1.0}
"""What a task asks for where nothing else is said: the default container of Hadoop's load simulator."""

TASKS: Final = BoundedPareto(tail=1.1, low=1, high=1000)
TASK_MS: Final = Lognormal(mean=20_000, variation=1.5)
"""Mean task duration of a stage."""


class Shape(Protocol):
    """Draws the DAG of one job; all chance comes from the generator."""

    def __call__(self, generator: np.random.Generator, name: str) -> Dag:
        """Return a DAG of that name."""


def bag(
    tasks: Distribution = TASKS,
    task_ms: Distribution = TASK_MS,
    variation: float = 0.2,
    demand: Mapping[str, float] = CONTAINER,
) -> Shape:
    """Return a shape of one stage.

    Args:
        tasks: how many.
        task_ms: the mean duration of a job's tasks.
        variation: the coefficient of variation of durations within a job; 0 makes all tasks of a job alike.
        demand: of a task.
    """

    def draw(generator: np.random.Generator, name: str) -> Dag:
        width = int(whole(tasks.draw(generator, 1))[0])
        mean_ms = float(task_ms.draw(generator, 1)[0])
        return Dag(name, (_stage(generator, 0, width, mean_ms, variation, demand, name="tasks"),))

    return draw


def map_reduce(
    maps: Distribution = TASKS,
    reduces_per_map: float = 0.1,
    map_ms: Distribution = TASK_MS,
    reduce_ms: Distribution = TASK_MS,
    variation: float = 0.2,
    demand: Mapping[str, float] = CONTAINER,
) -> Shape:
    """Return a shape of maps and then reduces, one reduce for so many maps; without reduces if that rounds to 0."""
    if not 0.0 <= reduces_per_map < float("inf"):
        raise WorkloadError(f"reduces_per_map is {reduces_per_map}; it must be 0 or more")

    def draw(generator: np.random.Generator, name: str) -> Dag:
        width = int(whole(maps.draw(generator, 1))[0])
        means = float(map_ms.draw(generator, 1)[0]), float(reduce_ms.draw(generator, 1)[0])
        stages = [_stage(generator, 0, width, means[0], variation, demand, name="map")]
        reduces = round(width * reduces_per_map)
        if reduces:
            stages.append(_stage(generator, 1, reduces, means[1], variation, demand, (0,), "reduce"))
        return Dag(name, tuple(stages))

    return draw


def layered(
    depth: Distribution,
    stages_per_layer: Distribution,
    tasks: Distribution = TASKS,
    task_ms: Distribution = TASK_MS,
    variation: float = 0.2,
    demand: Mapping[str, float] = CONTAINER,
) -> Shape:
    """Return a shape of layers: each stage waits for one or two stages, drawn evenly, of the layer before it."""

    def draw(generator: np.random.Generator, name: str) -> Dag:
        stages: list[Stage] = []
        above: list[int] = []
        for count in whole(stages_per_layer.draw(generator, int(whole(depth.draw(generator, 1))[0]))):
            layer = []
            for _ in range(int(count)):
                wanted = min(len(above), int(generator.integers(1, 3)))
                parents = tuple(sorted(int(at) for at in generator.choice(above, wanted, replace=False)))
                width = int(whole(tasks.draw(generator, 1))[0])
                mean_ms = float(task_ms.draw(generator, 1)[0])
                layer.append(len(stages))
                stages.append(_stage(generator, len(stages), width, mean_ms, variation, demand, parents))
            above = layer
        return Dag(name, tuple(stages))

    return draw


def wide(demand: Mapping[str, float] = CONTAINER) -> Shape:
    """Return a shape of 2 or 3 layers of up to 4 stages of many tasks (100 on average)."""
    return layered(Lognormal(2.3, 0.2), Lognormal(2.5, 0.4), Lognormal(100, 1), TASK_MS, demand=demand)


def narrow(demand: Mapping[str, float] = CONTAINER) -> Shape:
    """Return a shape of a dozen stages one after another, each of a few tasks (4 on average)."""
    return layered(Lognormal(12, 0.4), Lognormal(1, 0), Lognormal(4, 0.5), TASK_MS, demand=demand)


def one_of(dags: Sequence[Dag]) -> Shape:
    """Return a shape that takes one of given DAGs, each as likely; for jobs of a trace under other arrivals."""
    if not dags:
        raise WorkloadError("one_of: there is no DAG to choose from")

    def draw(generator: np.random.Generator, name: str) -> Dag:
        return dags[int(generator.integers(len(dags)))]

    return draw


def mixed(*shapes: tuple[float, Shape]) -> Shape:
    """Return a shape that takes one of several, as likely as their weights say."""
    weights = np.array([weight for weight, _ in shapes], np.float64)
    if not len(shapes) or not np.all(weights >= 0) or not 0 < weights.sum() < float("inf"):
        raise WorkloadError("mixed: the weights must not be negative, and one must be above 0")
    chances = weights / weights.sum()

    def draw(generator: np.random.Generator, name: str) -> Dag:
        return shapes[int(generator.choice(len(shapes), p=chances))][1](generator, name)

    return draw


def _stage(
    generator: np.random.Generator,
    number: int,
    tasks: int,
    mean_ms: float,
    variation: float,
    demand: Mapping[str, float],
    parents: tuple[int, ...] = (),
    name: str = "",
) -> Stage:
    """Draw the tasks' durations around their mean; with one common duration they are not kept one by one."""
    if not variation:
        return Stage(number, tasks, max(1, round(mean_ms)), demand, parents, name=name)
    durations = whole(Lognormal(mean_ms, variation).draw(generator, tasks))
    return Stage(number, tasks, round(float(durations.mean())), demand, parents, durations_ms=durations, name=name)

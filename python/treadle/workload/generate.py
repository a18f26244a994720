"""Workloads drawn by seed: Poisson arrivals, long-tailed sizes, shapes of DAGs, a given mean load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import expm1, log, log1p, sqrt
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.dag import Dag, Stage
from treadle.workload.job import Capacity, Framework, Job, Workload, arranged, scaled_to_load
from treadle.workload.reading import WorkloadError

Chosen = TypeVar("Chosen", str, int)


class Distribution(Protocol):
    """A distribution of positive numbers."""

    @property
    def mean(self) -> float:
        """The expected value."""

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers, shape (count,)."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    value: float

    def __post_init__(self) -> None:
        _positive("Constant", value=self.value)

    @property
    def mean(self) -> float:
        """The value itself."""
        return self.value

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return the value ``count`` times."""
        return np.full(count, self.value)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Without memory; the gaps of Poisson arrivals."""

    mean: float

    def __post_init__(self) -> None:
        _positive("Exponential", mean=self.mean)

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers."""
        return generator.exponential(self.mean, count)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """A moderate tail, given by its mean and its coefficient of variation (deviation over mean)."""

    mean: float
    variation: float

    def __post_init__(self) -> None:
        _positive("Lognormal", mean=self.mean)
        if not 0.0 <= self.variation < float("inf"):
            raise WorkloadError(f"Lognormal: variation is {self.variation}; it must be 0 or more")

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers."""
        variance = log1p(self.variation**2)
        return generator.lognormal(log(self.mean) - variance / 2, sqrt(variance), count)


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """A long tail, P(X > x) proportional to x to the power -tail, between two bounds.

    With a tail near 1 a few jobs bring most of the work, as in the traces of big clusters.
    """

    tail: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _positive("BoundedPareto", tail=self.tail, low=self.low, high=self.high)
        if self.low >= self.high:
            raise WorkloadError(f"BoundedPareto: low is {self.low}; it must be less than high, {self.high}")

    @property
    def mean(self) -> float:
        """The expected value."""
        # low * tail * integral of x^-tail from 1 to ratio, over the probability between the bounds; expm1 keeps it
        # exact as the tail goes to 1, where the integral becomes a logarithm.
        ratio = log(self.high / self.low)
        exponent = 1.0 - self.tail
        integral = expm1(exponent * ratio) / exponent if exponent else ratio
        return self.low * self.tail * integral / -expm1(-self.tail * ratio)

    def draw(self, generator: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Return ``count`` numbers, by the inverse of the distribution function."""
        uniform = generator.random(count)
        ratio = log(self.high / self.low)
        drawn = self.low * (1.0 + uniform * expm1(-self.tail * ratio)) ** (-1.0 / self.tail)
        return np.clip(drawn, self.low, self.high)


def whole(drawn: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return numbers rounded to integers of at least 1."""
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def _positive(family: str, **values: float) -> None:
    for name, value in values.items():
        if not 0.0 < value < float("inf"):
            raise WorkloadError(f"{family}: {name} is {value}; it must be a number above 0")


CONTAINER: Final[Mapping[str, float]] = {"memory-mb": 1024.0, "vcores": 1.0}
"""Default resources of a task: the default container of Hadoop's load simulator."""

TASKS: Final = BoundedPareto(tail=1.1, low=1, high=1000)
TASK_MS: Final = Lognormal(mean=20_000, variation=1.5)
"""Mean task duration of a stage."""


Shape = Callable[[np.random.Generator, str], Dag]
"""Draws the DAG of one job, of that name; all randomness comes from the generator."""


def bag(
    tasks: Distribution = TASKS,
    task_ms: Distribution = TASK_MS,
    variation: float = 0.2,
    demand: Mapping[str, float] = CONTAINER,
) -> Shape:
    """Return a shape of one stage.

    Args:
        tasks: number of tasks.
        task_ms: the mean duration of a job's tasks.
        variation: the coefficient of variation of durations within a job; 0 makes all tasks of a job equal.
        demand: resources of a task.
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
    """Return a shape of maps and then reduces, ``reduces_per_map`` of them; without reduces if that rounds to 0."""
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
    """Return a shape of layers: each stage waits for one or two uniformly drawn stages of the previous layer."""

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
    """Draw the tasks' durations around their mean; a common duration is stored once."""
    if not variation:
        return Stage(number, tasks, max(1, round(mean_ms)), demand, parents, name=name)
    durations = whole(Lognormal(mean_ms, variation).draw(generator, tasks))
    return Stage.measured(number, durations, demand, parents, name)


JOBS_MAX: Final = 10_000_000


def poisson(
    seed: int,
    jobs: int,
    *,
    shape: Shape | None = None,
    mean_gap_ms: float = 10_000.0,
    capacity: Capacity | None = None,
    load: float | None = None,
    queues: Mapping[str, float] | None = None,
    users: int = 1,
    tags: Mapping[str, float] | None = None,
    priorities: Mapping[int, float] | None = None,
    framework: Framework = Framework.TEZ,
) -> Workload:
    """Draw jobs whose arrivals are a Poisson process.

    Equal arguments give equal workloads.

    Args:
        seed: of all random draws.
        jobs: number of jobs.
        shape: draws a job's DAG; `bag` with its defaults if None.
        mean_gap_ms: between arrivals; not used if ``load`` is given.
        capacity: of the cluster for ``load``.
        load: the mean load of the bottleneck resource until the last arrival: the drawn gaps are scaled so that the
            drawn jobs have exactly this load, instead of only in expectation.
        queues: names and weights: a job's queue is drawn in proportion; None: no queues.
        users: number of users user0, user1, ...; each job's is drawn uniformly.
        tags: texts and weights: each job has one of them, the empty one is none; None: no tags.
        priorities: of applications, and weights; None: all 0.
        framework: of all jobs.

    Raises:
        WorkloadError: an argument is out of its bounds, or only one of ``load`` and ``capacity`` is given.
    """
    if not 1 <= jobs <= JOBS_MAX:
        raise WorkloadError(f"jobs is {jobs}; it must be between 1 and {JOBS_MAX}")
    if users < 1:
        raise WorkloadError(f"users is {users}; it must be at least 1")
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; it must not be negative")
    if (load is None) != (capacity is None):
        raise WorkloadError("load and capacity go together: give both or none")
    # Separate streams, so that another shape changes neither arrivals nor owners of jobs.
    gaps, bodies, owners, marks = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4))
    arrivals_ms = np.cumsum(Exponential(mean_gap_ms).draw(gaps, jobs))
    names, chances = _weights("queues", queues, "")
    texts = _drawn(marks, jobs, *_weights("tags", tags, ""))
    ranks = _drawn(marks, jobs, *_weights("priorities", priorities, 0))
    draw = shape or bag()
    made = []
    for number, arrival_ms in enumerate(arrivals_ms.tolist()):
        name = f"job{number}"
        queue = names[int(owners.choice(len(names), p=chances))]
        user = f"user{int(owners.integers(users))}"
        job = Job(name, round(arrival_ms), draw(bodies, name), framework, name, user, queue)
        text, rank = texts[number], ranks[number]
        made.append(replace(job, tags=(text,) if text else (), priority=rank) if text or rank else job)
    workload = arranged(made)
    return workload if load is None or capacity is None else scaled_to_load(workload, capacity, load)


def _weights(
    what: str, weighted: Mapping[Chosen, float] | None, silent: Chosen
) -> tuple[list[Chosen], npt.NDArray[np.float64]]:
    """Return values and their probabilities; ``silent`` alone without weights."""
    if not weighted:
        return [silent], np.ones(1)
    weights = np.array(list(weighted.values()), np.float64)
    if not np.all(weights >= 0) or not 0 < weights.sum() < float("inf"):
        raise WorkloadError(f"{what}: the weights must not be negative, and one must be above 0")
    return list(weighted), weights / weights.sum()


def _drawn(
    generator: np.random.Generator, count: int, values: list[Chosen], chances: npt.NDArray[np.float64]
) -> list[Chosen]:
    """Return ``count`` of the values, drawn by their probabilities."""
    if len(values) == 1:
        return values * count
    return [values[at] for at in generator.choice(len(values), count, p=chances).tolist()]

"""Graphene's offline part (OSDI 2016, section 8.4): makespans of single DAGs against other algorithms and the bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from treadle.dag.dag import Instance
from treadle.dag.generate import Shape, generate
from treadle.planner import baselines
from treadle.planner.graphene import Options, plan

ALGORITHMS: Final = ("graphene", "graphene-paper", *baselines.NAMES)
SHARES: Final = (0.0, 0.25, 0.5, 0.75)
"""Of long small stages, and of fragmenting ones: the range of the generator's parameters."""

Progress = Callable[[str, int, int], None]
"""Called with (what runs, how much is done, of how much) now and then."""


@dataclass(frozen=True, slots=True)
class Offline:
    """Executed makespans of single DAGs, by algorithm one number a DAG."""

    bound: list[int]
    makespans: dict[str, list[int]]

    def over_bound(self, algorithm: str) -> list[float]:
        """Return how many times the lower bound each DAG takes."""
        return [each / bound for each, bound in zip(self.makespans[algorithm], self.bound, strict=True)]

    def shorter_percent(self, algorithm: str, than: str = "bfs") -> list[float]:
        """Return by how much each DAG is shorter than by another algorithm, in percent of that."""
        pairs = zip(self.makespans[algorithm], self.makespans[than], strict=True)
        return [100.0 * (1.0 - ours / theirs) for ours, theirs in pairs]


def makespan(algorithm: str, instance: Instance, schedules: int) -> tuple[int, int]:
    """Return a DAG's executed makespan by an algorithm, and the best lower bound known."""
    where = (instance.dag, instance.capacity, instance.machines)
    if algorithm in baselines.NAMES:
        found = baselines.baseline(algorithm, *where)
    else:
        found = plan(*where, schedules, options=Options(paper=algorithm == "graphene-paper"))
    return found.executed_makespan, found.bounds.best


def compare_offline(
    seeds: range,
    shape: Shape | None = None,
    algorithms: tuple[str, ...] = ALGORITHMS,
    schedules: int = 400,
    progress: Progress | None = None,
) -> Offline:
    """Plan one generated DAG a seed by each algorithm."""
    bounds: list[int] = []
    makespans: dict[str, list[int]] = {name: [] for name in algorithms}
    for number, seed in enumerate(seeds):
        if progress is not None:
            progress("offline", number, len(seeds))
        instance = generate(seed, shape)
        bound = 0
        for name in algorithms:
            executed, known = makespan(name, instance, schedules)
            makespans[name].append(executed)
            bound = max(bound, known)
        bounds.append(bound)
    return Offline(bounds, makespans)


def sweep_offline(seeds: range, schedules: int, progress: Progress | None = None) -> dict[tuple[float, float], Offline]:
    """Return plans and breadth first over the generator's range, by shares of long and of fragmenting stages."""
    found = {}
    points = [(long_share, fragmenting) for long_share in SHARES for fragmenting in SHARES]
    for number, (long_share, fragmenting) in enumerate(points):
        if progress is not None:
            progress("offline, over the generator's range", number, len(points))
        shape = replace(Shape(), long_share=long_share, fragmenting_share=fragmenting)
        found[long_share, fragmenting] = compare_offline(seeds, shape, ("graphene", "bfs"), schedules)
    return found

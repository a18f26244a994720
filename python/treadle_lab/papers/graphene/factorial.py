"""Which of the choices makes the gain: all combinations of levels, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.simulate.comparison import Interval, interval_of
from treadle_lab.harness.runs import Asked, run_all
from treadle_lab.papers.graphene import paper
from treadle_lab.papers.graphene.jobs import (
    AS_IT_IS,
    BFS,
    BFS_CORES,
    ONE_TO_ONE,
    PRODUCTION,
    SCHEMES,
    TETRIS,
    TETRIS_ALL,
    Mix,
    Scheme,
    Variation,
)
from treadle_lab.papers.graphene.simulations import (
    Draw,
    Result,
    SchemeRun,
    gaps_percent,
    mean_shorter,
    median_shorter,
    result_of,
    run_one,
    throughput_higher,
)
from treadle_lab.rows import plain

NAMED: Final = {scheme.name: scheme for scheme in SCHEMES}
COUNTED: Final = "counted"
"""Of resources that could be overbooked, and are not."""
COMPARED: Final = (BFS.name, BFS_CORES.name, TETRIS.name, TETRIS_ALL.name)
"""What schemes are compared with, where it was run."""
WORKLOADS: Final = ("generated", "production", "tpch")
"""``production``: generated, with four resources of which two may be overbooked, and edges mostly one to one."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs on how many machines."""

    jobs: int
    machines: int

    def __str__(self) -> str:
        """Return what the command takes: 16x4."""
        return f"{self.jobs}x{self.machines}"


@dataclass(frozen=True, slots=True)
class Point:
    """What schemes are compared at."""

    workload: str
    size: Size
    load: float
    tick_ms: int
    wrong: float
    """Durations that are believed are off by up to so many times; 1: they are right."""
    usage: tuple[float, float]
    """What part of the network and disk that they ask for tasks use. Overbooking is right for one of them alone."""


def shown_range(part: tuple[float, float]) -> str:
    """Return a range as the command takes it: 0.5..0.7."""
    return "..".join(f"{bound:g}" for bound in part)


@dataclass(frozen=True, slots=True)
class Levels:
    """The factors and their levels; all combinations are run."""

    workloads: tuple[str, ...]
    sizes: tuple[Size, ...]
    loads: tuple[float, ...]
    ticks_ms: tuple[int, ...]
    wrong: tuple[float, ...]
    usages: tuple[tuple[float, float], ...]
    candidates: tuple[int, ...]
    """0: all."""
    srpt_weights: tuple[float, ...]
    overbook: tuple[float | None, ...]
    """None: all resources are counted."""

    def points(self) -> Iterator[Point]:
        """Yield every combination of what is given."""
        for values in product(self.workloads, self.sizes, self.loads, self.ticks_ms, self.wrong, self.usages):
            yield Point(*values)

    def variations(self) -> Iterator[Variation]:
        """Yield every combination of settings."""
        for overbook, candidates, weight in product(self.overbook, self.candidates, self.srpt_weights):
            yield Variation(srpt_weight=weight, candidates=candidates, overbook=overbook)


@dataclass(frozen=True, slots=True)
class Found:
    """Results of a scheme at a point, by seed."""

    point: Point
    scheme: str
    variation: Variation
    """`AS_IT_IS` of a scheme without a perfScore."""
    online: tuple[Result, ...]
    batch: tuple[Result, ...]


def _mix(point: Point) -> Mix:
    mix = Mix(point.size.machines, usage=point.usage)
    return replace(mix, one_to_one_share=ONE_TO_ONE, resources=PRODUCTION) if point.workload == "production" else mix


def _draw(point: Point, seed: int, tpch: Path | None, *, batch: bool) -> Draw:
    folder = tpch if point.workload == "tpch" else None
    return Draw(_mix(point), seed, point.size.jobs, point.load, batch=batch, tpch=folder)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is run."""

    levels: Levels
    schemes: tuple[str, ...]
    """`bfs` is always run."""
    seeds: tuple[int, ...]
    online: bool
    batch: bool
    tpch: Path | None
    hold_nodes: int | None = None
    """How many nodes may be held for large asks under all schemes; None: as the engine does by default."""

    def cells(self) -> list[tuple[Point, Scheme, Variation]]:
        """Return the rows of the result: a point, a scheme as it is set there, and how that differs."""
        found = []
        for point in self.levels.points():
            resources = _mix(point).resources
            for name in dict.fromkeys((BFS.name, *self.schemes)):
                scheme = NAMED[name].varied(Variation(hold_nodes=self.hold_nodes))
                for variation in self.levels.variations():
                    varied = scheme.varied(variation, resources)
                    if varied == scheme.varied(AS_IT_IS):
                        found.append((point, scheme, AS_IT_IS))
                        break
                    found.append((point, varied, variation))
        return found

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Return how jobs come: as drawn, at once (True), or both."""
        return (False,) * self.online + (True,) * self.batch


def run_factorial(wanted: Wanted, asked: Asked, progress: Callable[[float, int], None] | None = None) -> list[Found]:
    """Run all that is not kept, and return what came of each row.

    Raises:
        UserError: runs failed, each of which is named; the others have run, and are kept.
        WorkloadError: TPC-H's data is missing or wrong.
    """
    cells = wanted.cells()
    runs = [  # those of a draw together, so that a process plans a job once
        SchemeRun(_draw(point, seed, wanted.tpch, batch=batch), scheme, point.tick_ms, point.wrong)
        for seed in wanted.seeds
        for point, scheme, _ in cells
        for batch in wanted.kinds
    ]
    online: list[list[Result]] = [[] for _ in cells]
    batches: list[list[Result]] = [[] for _ in cells]
    results = iter(run_all(runs, run_one, asked, progress))
    for _ in wanted.seeds:
        for at in range(len(cells)):
            for batch in wanted.kinds:
                (batches if batch else online)[at].append(result_of(next(results)))
    return [
        Found(point, scheme.name, variation, tuple(online[at]), tuple(batches[at]))
        for at, (point, scheme, variation) in enumerate(cells)
    ]


def base_of(found: Sequence[Found], row: Found, name: str) -> Found | None:
    """Return the row that another is compared with: of the same point, and set alike if it can be; None without one."""
    same = [each for each in found if each.point == row.point and each.scheme == name]
    return next((each for each in same if each.variation in (row.variation, AS_IT_IS)), None)


def plain_variation(variation: Variation) -> Mapping[str, Any]:
    """Return a variation as JSON takes it; nothing but None of a scheme without a perfScore."""
    candidates = "all" if variation.candidates == 0 else variation.candidates
    overbook = COUNTED if variation.overbook is None and variation != AS_IT_IS else variation.overbook
    return {"srpt_weight": variation.srpt_weight, "candidates": candidates, "overbook": overbook}


PERCENTILES: Final = (10, 25, 50, 75, 90)
FACTORS: Final = ("workload", "size", "load", "tick_ms", "wrong", "usage", "candidates", "srpt_weight", "overbook")
FIGURES: Final = ("median_shorter", "mean_shorter", "throughput_higher")


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of a scheme at a point; intervals are over seeds, percentages draw by draw."""

    factors: dict[str, Any]
    """The level of each of `FACTORS`; None where it does not concern the scheme."""
    scheme: str
    times_s: dict[str, Interval]
    """median, mean, batch (the makespan of all jobs at once): those that were run."""
    by_seed: dict[str, dict[str, list[float]]]
    """By figure and what the scheme is compared with: percent, of each seed."""
    gains: dict[str, dict[str, float]]
    """By what it is compared with: percentiles over jobs of the paper's gap in completion time, percent, all draws."""

    def interval(self, figure: str, base: str) -> Interval | None:
        """Return a figure over seeds; None if it was not run."""
        values = self.by_seed[figure].get(base)
        return interval_of(values) if values else None

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON takes it."""
        figures = {
            figure: {base: interval_of(values).as_json() for base, values in bases.items()}
            for figure, bases in self.by_seed.items()
        }
        times = {f"{name}_s": each.as_json() for name, each in self.times_s.items()}
        return {**self.factors, "scheme": self.scheme, **times, **figures, "gains": self.gains}


def rows_of(found: Sequence[Found]) -> list[Row]:
    """Return a row for each scheme at each point, as it was set."""
    return [_row(found, each) for each in found]


def _row(found: Sequence[Found], own: Found) -> Row:
    times: dict[str, Interval] = {}
    if own.online:
        times["median"] = interval_of([result.median_s for result in own.online])
        times["mean"] = interval_of([result.mean_s for result in own.online])
    if own.batch:
        times["batch"] = interval_of([result.makespan_ms / 1000.0 for result in own.batch])
    by_seed: dict[str, dict[str, list[float]]] = {figure: {} for figure in FIGURES}
    gains: dict[str, dict[str, float]] = {}
    for name in COMPARED:
        base = base_of(found, own, name)
        if base is None or base is own:
            continue
        if own.online:
            by_seed["median_shorter"][name] = _each(own.online, base.online, median_shorter)
            by_seed["mean_shorter"][name] = _each(own.online, base.online, mean_shorter)
            gaps = np.concatenate(
                [gaps_percent(ours, theirs) for ours, theirs in zip(own.online, base.online, strict=True)]
            )
            gains[name] = {f"p{part}": float(np.percentile(gaps, part)) for part in PERCENTILES}
        if own.batch:
            by_seed["throughput_higher"][name] = _each(own.batch, base.batch, throughput_higher)
    point = own.point
    given = {"workload": point.workload, "size": str(point.size), "load": point.load}
    given |= {"tick_ms": point.tick_ms, "wrong": point.wrong, "usage": shown_range(point.usage)}
    return Row({**given, **plain_variation(own.variation)}, own.scheme, times, by_seed, gains)


def _each(ours: Sequence[Result], theirs: Sequence[Result], figure: Callable[[Result, Result], float]) -> list[float]:
    return [figure(mine, other) for mine, other in zip(ours, theirs, strict=True)]


def effects_of(rows: Sequence[Row], scheme: str) -> dict[str, dict[str, dict[str, dict[str, Interval]]]]:
    """Return a scheme's figures by factor, level, figure and what it is compared with: the mean over all other factors.

    The mean is taken seed by seed; intervals are over seeds. Factors of one level are left out.
    """
    own = [row for row in rows if row.scheme == scheme]
    found: dict[str, dict[str, dict[str, dict[str, Interval]]]] = {}
    for factor in FACTORS:
        levels = list(dict.fromkeys(row.factors[factor] for row in own))
        if len(levels) > 1:
            found[factor] = {
                str(level): _mean_of([row for row in own if row.factors[factor] == level]) for level in levels
            }
    return found


def _mean_of(rows: Sequence[Row]) -> dict[str, dict[str, Interval]]:
    return {
        figure: {
            base: interval_of(np.mean([row.by_seed[figure][base] for row in rows], axis=0).tolist())
            for base in rows[0].by_seed[figure]
        }
        for figure in FIGURES
    }


def as_json(wanted: Wanted, rows: Sequence[Row]) -> dict[str, Any]:
    """Return all of it as JSON takes it: intervals have mean, low and high."""
    schemes = dict.fromkeys(row.scheme for row in rows)
    effects = {scheme: effects_of(rows, scheme) for scheme in schemes}
    return {
        "seeds": list(wanted.seeds),
        "factors": list(FACTORS),
        "rows": [row.as_json() for row in rows],
        "effects": plain(effects),
        "paper": {
            "median_shorter": paper.MEDIAN_SHORTER_PERCENT,
            "throughput_higher": paper.THROUGHPUT_HIGHER_PERCENT,
            "half_of_jobs_shorter": paper.HALF_SHORTER_PERCENT,
        },
    }

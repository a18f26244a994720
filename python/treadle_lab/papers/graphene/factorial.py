"""Contribution of each choice to the gain: all combinations of levels, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.papers.graphene.jobs import (
    AS_IT_IS,
    BFS,
    BFS_CORES,
    ONE_TO_ONE,
    PRODUCTION,
    SCHEMES,
    TETRIS,
    TETRIS_ALL,
    Draw,
    Mix,
    Result,
    Scheme,
    SchemeRun,
    Variation,
    gaps_percent,
    mean_shorter,
    median_shorter,
    result_of,
    run_one,
    throughput_higher,
)
from treadle_lab.rows import SPLIT, Layout, Results, Row

NAMED: Final = {scheme.name: scheme for scheme in SCHEMES}
COUNTED: Final = "counted"
"""Level of resources that could be overbooked, and are not."""
COMPARED: Final = (BFS.name, BFS_CORES.name, TETRIS.name, TETRIS_ALL.name)
"""The baselines of schemes, where they were run."""
WORKLOADS: Final = ("generated", "production", "tpch")
"""``production``: generated, with four resources of which two may be overbooked, and edges mostly one to one."""


@dataclass(frozen=True, slots=True)
class Size:
    """Number of jobs and machines."""

    jobs: int
    machines: int

    def __str__(self) -> str:
        """Return the form used by the command: 16x4."""
        return f"{self.jobs}x{self.machines}"


@dataclass(frozen=True, slots=True)
class Point:
    """The conditions of a comparison."""

    workload: str
    size: Size
    load: float
    tick_ms: int
    wrong: float
    """Maximum factor of wrong durations; 1: correct ones."""
    usage: tuple[float, float]
    """Fraction of the requested network and disk that tasks use. Overbooking is correct for one value only."""


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
        """Yield every combination of the given levels."""
        for values in product(self.workloads, self.sizes, self.loads, self.ticks_ms, self.wrong, self.usages):
            yield Point(*values)

    def variations(self) -> Iterator[Variation]:
        """Yield every combination of settings."""
        for overbook, candidates, weight in product(self.overbook, self.candidates, self.srpt_weights):
            yield Variation(srpt_weight=weight, candidates=candidates, overbook=overbook)


@dataclass(frozen=True, slots=True)
class CellResult:
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
class Selection:
    """The combinations to run."""

    levels: Levels
    schemes: tuple[str, ...]
    """`bfs` is always run."""
    seeds: tuple[int, ...]
    online: bool
    batch: bool
    tpch: Path | None

    def cells(self) -> list[tuple[Point, Scheme, Variation]]:
        """Return the rows of the result: a point, a scheme with its settings there, and its variation."""
        found = []
        for point in self.levels.points():
            resources = _mix(point).resources
            for name in dict.fromkeys((BFS.name, *self.schemes)):
                scheme = NAMED[name]
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


def run_factorial(
    wanted: Selection, settings: RunSettings, progress: Callable[[int, int], None] | None = None
) -> list[CellResult]:
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
    results = iter(run_all(runs, run_one, settings, progress))
    for _ in wanted.seeds:
        for at in range(len(cells)):
            for batch in wanted.kinds:
                (batches if batch else online)[at].append(result_of(next(results)))
    return [
        CellResult(point, scheme.name, variation, tuple(online[at]), tuple(batches[at]))
        for at, (point, scheme, variation) in enumerate(cells)
    ]


def base_of(results: Sequence[CellResult], row: CellResult, name: str) -> CellResult | None:
    """Return the baseline row of another: of the same point, with equal settings if possible; None without one."""
    same = [each for each in results if each.point == row.point and each.scheme == name]
    return next((each for each in same if each.variation in (row.variation, AS_IT_IS)), None)


def levels_of(result: CellResult) -> dict[str, str]:
    """Return the level of each factor; empty where it does not concern the scheme."""
    point, variation = result.point, result.variation
    candidates = "all" if variation.candidates == 0 else variation.candidates
    overbook = COUNTED if variation.overbook is None and variation != AS_IT_IS else variation.overbook
    levels = {"workload": point.workload, "size": point.size, "load": point.load, "tick_ms": point.tick_ms}
    levels |= {"wrong": point.wrong, "usage": shown_range(point.usage), "candidates": candidates}
    levels |= {"srpt_weight": variation.srpt_weight, "overbook": overbook}
    return {name: "" if level is None else str(level) for name, level in levels.items()}


PERCENTILES: Final = (10, 25, 50, 75, 90)
EACH: Final = "graphene-rows"
EFFECTS: Final = "graphene-effects"
GAINS: Final = "graphene-gains"


def results_of(wanted: Selection, cell_results: Sequence[CellResult]) -> Results:
    """Return each point and setting, each level of a factor, and percentiles over jobs of the gaps of all draws."""
    levels = [levels_of(each) for each in cell_results]
    varied = [name for name in levels[0] if len({each[name] for each in levels} - {""}) > 1]
    rows: dict[str, list[Row]] = {name: [] for name in (EACH, EFFECTS, GAINS)}
    for own, level in zip(cell_results, levels, strict=True):
        x = SPLIT.join(level[name] for name in varied)
        rows[EACH] += _rows(wanted, cell_results, own, x)
        for base in _bases(cell_results, own) if own.online else ():
            pairs = zip(own.online, base.online, strict=True)
            gaps = np.percentile(np.concatenate([gaps_percent(*pair) for pair in pairs]), PERCENTILES).tolist()
            at = SPLIT.join(each for each in (x, own.scheme) if each)
            for part, value in zip(PERCENTILES, gaps, strict=True):
                rows[GAINS].append(Row(f"P{part} (%)", base.scheme, at, 0, value, "%"))
    rows[EFFECTS] = list(_effects(rows[EACH], varied))
    layouts = {
        EACH: Layout("Each point and setting", (*varied, "scheme")),
        EFFECTS: Layout("Each level of a factor: the mean over all other factors", ("scheme", "factor", "level")),
        GAINS: Layout("Jobs are shorter by: percentiles over the jobs of all draws", (*varied, "scheme", "against")),
    }
    return Results(layouts, rows, {"seeds": list(wanted.seeds)})


def _bases(results: Sequence[CellResult], own: CellResult) -> list[CellResult]:
    bases = (base_of(results, own, name) for name in COMPARED)
    return [base for base in bases if base is not None and base is not own]


def _rows(wanted: Selection, results: Sequence[CellResult], own: CellResult, x: str) -> Iterator[Row]:
    """Yield the figures of a scheme at a point: percentages draw by draw."""

    def row(figure: str, seed: int, value: float, unit: str = "%") -> Row:
        return Row(figure, own.scheme, x, seed, value, unit)

    for seed, online in zip(wanted.seeds, own.online, strict=False):
        yield row("median (s)", seed, online.median_s, "s")
        yield row("mean (s)", seed, online.mean_s, "s")
    for seed, batch in zip(wanted.seeds, own.batch, strict=False):
        yield row("batch (s)", seed, batch.makespan_ms / 1000.0, "s")
    for base in _bases(results, own):
        for seed, ours, theirs in zip(wanted.seeds, own.online, base.online, strict=False):
            yield row(f"median shorter than {base.scheme} (%)", seed, median_shorter(ours, theirs))
            yield row(f"mean shorter than {base.scheme} (%)", seed, mean_shorter(ours, theirs))
        for seed, ours, theirs in zip(wanted.seeds, own.batch, base.batch, strict=False):
            yield row(f"throughput over {base.scheme} (%)", seed, throughput_higher(ours, theirs))


def _effects(rows: Sequence[Row], varied: Sequence[str]) -> Iterator[Row]:
    """Yield figures by scheme and level of a factor: the mean over all other factors, seed by seed."""
    together: dict[tuple[str, str, str, str, int], list[float]] = {}
    for row in rows:
        for factor, level in zip(varied, row.x.split(SPLIT), strict=False):
            if level and row.unit == "%":
                together.setdefault((row.figure, row.series, factor, level, row.draw), []).append(row.value)
    for (figure, scheme, factor, level, draw), values in together.items():
        yield Row(figure, level, SPLIT.join((scheme, factor)), draw, float(np.mean(values)), "%")

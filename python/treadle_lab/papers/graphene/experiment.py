"""Graphene: jobs under schemes, over draws of jobs and seeds; rows and their tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np

from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.papers.graphene.jobs import (
    BASELINES,
    BFS,
    BFS_CORES,
    BFS_MEMORY,
    GRAPHENE,
    SCHEMES,
    TETRIS,
    TICK_MS,
    BatchBounds,
    BoundsRun,
    Draw,
    Result,
    Scheme,
    SchemeRun,
    gaps_percent,
    higher_percent,
    result_of,
    run_one,
    shorter_percent,
    tpch_shaped,
)
from treadle_lab.plots import Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row

# The paper's text at hand has lost almost all digits; these are left.

MEDIAN_SHORTER_PERCENT: Final = 25.0
"""Abstract: median job completion time, against breadth first + capacity."""
THROUGHPUT_HIGHER_PERCENT: Final = 30.0
"""Abstract: cluster throughput."""
HALF_SHORTER_PERCENT: Final = 30.0
"""Technical report: half of the jobs are this much faster, or more."""

LOST: Final = (
    "offline makespans against other algorithms and the lower bound",
    "completion times by benchmark and percentile",
    "makespan of a batch",
    "completion times with two queues, and Jain's index by window",
    "wrong estimates",
)
"""What else the paper measured: no figure of these is left, and none here is the paper's."""


class Part(StrEnum):
    """A part of the evaluation; each can be run by itself."""

    ONLINE = "online"
    """Poisson arrivals under all schemes."""
    BATCH = "batch"
    """The same jobs at once: throughput."""


TPCH_MACHINES: Final = 8
GENERATED_MACHINES: Final = 4
COMPARED: Final = (BFS, BFS_CORES, BFS_MEMORY, TETRIS, GRAPHENE)
"""Schemes whose throughput is compared."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the experiment."""

    jobs: int = 40
    load: float = 0.6
    tick_ms: int = TICK_MS
    """Interval of decisions in ms."""
    parts: frozenset[Part] = frozenset(Part)
    """The parts to run."""
    schemes: frozenset[str] = frozenset(scheme.name for scheme in SCHEMES)
    """Those that are run; `bfs` always is."""


@dataclass(slots=True)
class Outcome:
    """The results of one seed."""

    seed: int
    online: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By workload and scheme."""
    batch: dict[str, dict[str, Result]] = field(default_factory=dict)
    batch_bounds: dict[str, BatchBounds] = field(default_factory=dict)
    """By workload: what no scheduler can beat."""
    wall_s: float = 0.0


def runs_of(tpch: Path | None, sizes: Sizes, seed: int) -> Iterator[SchemeRun | BoundsRun]:
    """Yield the runs of a seed."""
    folders: tuple[Path | None, ...] = (None,) if tpch is None else (tpch, None)
    for folder in folders:
        machines = GENERATED_MACHINES if folder is None else TPCH_MACHINES
        draw = Draw(machines, seed, sizes.jobs, sizes.load, tpch=folder)
        if Part.ONLINE in sizes.parts:
            yield from _under(sizes, draw, SCHEMES)
        if Part.BATCH in sizes.parts:
            batch = replace(draw, batch=True)
            yield BoundsRun(batch)
            yield from _under(sizes, batch, COMPARED)


def _under(sizes: Sizes, draw: Draw, schemes: Sequence[Scheme]) -> Iterator[SchemeRun]:
    for scheme in schemes:
        if scheme == BFS or scheme.name in sizes.schemes:
            yield SchemeRun(draw, scheme, sizes.tick_ms)


def run_seeds(
    tpch: Path | None,
    sizes: Sizes,
    seeds: Sequence[int],
    settings: RunSettings,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Return the results of each seed.

    Args:
        tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
        sizes: how much is run
        seeds: which
        settings: where results are kept, and how many run at a time
        progress: called with the runs that are done, and their number

    Raises:
        UserError: runs failed, each of which is named; the others have run, and are kept.
        WorkloadError: the data is missing or wrong.
    """
    if tpch is not None:
        tpch_shaped(tpch)  # an error in it is reported before anything runs
    outcomes = {seed: Outcome(seed) for seed in seeds}
    runs = [run for seed in seeds for run in runs_of(tpch, sizes, seed)]
    for run, document in zip(runs, run_all(runs, run_one, settings, progress), strict=True):
        outcome, draw = outcomes[run.draw.seed], run.draw
        if isinstance(run, BoundsRun):
            bounds = {each.name: document[each.name] for each in fields(BatchBounds)}
            outcome.batch_bounds[draw.shape] = BatchBounds(**bounds)
            continue
        part = outcome.batch if draw.batch else outcome.online
        part.setdefault(draw.shape, {})[run.scheme.name] = result_of(document)
        outcome.wall_s += document["wall_s"]
    return [outcomes[seed] for seed in seeds]


Runs = Mapping[int, Mapping[str, Mapping[str, Result]]]
"""Results by seed, workload and scheme."""
Measure = Callable[[Result, Result], float]
"""Combines a scheme's result with the baseline's."""


ONLINE: Mapping[str, tuple[Measure, float | None]] = {
    "median shorter than": (lambda ours, base: shorter_percent(ours.median_s, base.median_s), MEDIAN_SHORTER_PERCENT),
    "median gap to": (lambda ours, base: float(np.median(gaps_percent(ours, base))), HALF_SHORTER_PERCENT),
    "mean shorter than": (lambda ours, base: shorter_percent(ours.mean_s, base.mean_s), None),
}
"""Measures of jobs that arrive, in percent of a baseline, with the paper's figure of Graphene over breadth first."""
THROUGHPUT = "throughput over"
BATCH: Mapping[str, tuple[Measure, float | None]] = {
    THROUGHPUT: (lambda ours, base: higher_percent(ours.makespan_ms, base.makespan_ms), THROUGHPUT_HIGHER_PERCENT)
}

LAYOUTS = {
    "graphene-online": Layout("Completion times against each baseline", ("workload", "")),
    "graphene-batch": Layout("Throughput of batches against each baseline, and what is possible", ("workload", "")),
}
"""The bounds on throughput by work or path hold for any scheduler, the planner's for those without overbooking; one
plan for all jobs requires knowing them."""


def results_of(outcomes: Sequence[Outcome]) -> Results:
    """Return the results of one outcome per seed."""
    online, batch = ({each.seed: getattr(each, part) for each in outcomes} for part in ("online", "batch"))
    rows = {
        "graphene-online": [*_own(online, "median (s)", lambda found: found.median_s), *_compared(online, ONLINE)],
        "graphene-batch": [
            *_own(batch, "batch (s)", lambda found: found.makespan_ms / 1000.0),
            *_compared(batch, BATCH),
            *_possible(outcomes),
        ],
    }
    facts = {"seeds": [each.seed for each in outcomes], "wall_s": sum(each.wall_s for each in outcomes)}
    return Results(LAYOUTS, rows, facts | {"lost": list(LOST)})


def _each(runs: Runs) -> Iterator[tuple[int, str, str, Mapping[str, Result]]]:
    """Yield seed, workload, scheme, and the results of all schemes there."""
    for seed, workloads in runs.items():
        for workload, results in workloads.items():
            yield from ((seed, workload, scheme, results) for scheme in results)


def _own(runs: Runs, title: str, figure: Callable[[Result], float]) -> Iterator[Row]:
    return (Row(title, scheme, at, seed, figure(results[scheme]), "s") for seed, at, scheme, results in _each(runs))


def _compared(runs: Runs, measures: Mapping[str, tuple[Measure, float | None]]) -> Iterator[Row]:
    """Yield what each scheme is against each other baseline that was run."""
    for title, (measure, papers) in measures.items():
        for base in BASELINES:
            for seed, workload, scheme, results in _each(runs):
                if base in results and scheme != base:
                    known = papers if (scheme, base) == ("graphene", "bfs") else None
                    value = measure(results[scheme], results[base])
                    yield Row(f"{title} {base} (%)", scheme, workload, seed, value, "%", known)


def _possible(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Yield how much higher throughput could be, by the bound that shows it."""
    for outcome in outcomes:
        for workload, each in outcome.batch_bounds.items():
            bounds_ms = {
                "work or path bound": max(each.work_ms, each.path_ms),
                "planner's bound": each.planner_ms,
                "one plan": each.one_plan_ms,
                "one DAG, breadth first": each.one_breadth_first_ms,
            }
            results = outcome.batch[workload]
            for base in (base for base in BASELINES if base in results):
                for name, least_ms in bounds_ms.items():
                    value = higher_percent(least_ms, results[base].makespan_ms)
                    yield Row(f"{THROUGHPUT} {base} (%)", name, workload, outcome.seed, value, "%")


def plot_graphene(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Draw how much shorter jobs that arrive are, a plot a workload; return the files."""
    return [
        panels([_gaps(outcomes, workload)], folder / f"graphene-gaps-{workload}.png") for workload in outcomes[0].online
    ]


def _gaps(outcomes: Sequence[Outcome], workload: str) -> Panel:
    runs = [outcome.online[workload] for outcome in outcomes]
    gaps = {
        scheme: share_up_to(np.concatenate([gaps_percent(run[scheme], run["bfs"]) for run in runs]))
        for scheme in runs[0]
        if scheme != "bfs"
    }
    what = f"{workload}: completion time shorter than with breadth first + capacity (%)"
    return Panel(gaps, what, "share of jobs", x_range=(-100, 100))

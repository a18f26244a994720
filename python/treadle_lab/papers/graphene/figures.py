"""Graphene's results over seeds: rows and their tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from treadle_lab.papers.graphene.experiment import (
    HALF_SHORTER_PERCENT,
    LOST,
    MEDIAN_SHORTER_PERCENT,
    THROUGHPUT_HIGHER_PERCENT,
    Outcome,
)
from treadle_lab.papers.graphene.jobs import BASELINES, higher_percent
from treadle_lab.papers.graphene.simulations import (
    Result,
    gaps_percent,
    mean_shorter,
    median_shorter,
    throughput_higher,
)
from treadle_lab.plots import Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row

Runs = Mapping[int, Mapping[str, Mapping[str, Result]]]
"""Results by seed, workload and scheme."""
Measure = Callable[[Result, Result], float]
"""Combines a scheme's result with the baseline's."""


def _gap_median(ours: Result, base: Result) -> float:
    return float(np.median(gaps_percent(ours, base)))


ONLINE: Mapping[str, tuple[Measure, float | None]] = {
    "median shorter than": (median_shorter, MEDIAN_SHORTER_PERCENT),
    "median gap to": (_gap_median, HALF_SHORTER_PERCENT),
    "mean shorter than": (mean_shorter, None),
}
"""Measures of jobs that arrive, in percent of a baseline, with the paper's figure of Graphene over breadth first."""
THROUGHPUT = "throughput over"
BATCH: Mapping[str, tuple[Measure, float | None]] = {THROUGHPUT: (throughput_higher, THROUGHPUT_HIGHER_PERCENT)}

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

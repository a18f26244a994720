"""Graphene's results over seeds: rows and their tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from treadle_lab.papers.graphene import paper
from treadle_lab.papers.graphene.experiment import Outcome, point_name
from treadle_lab.papers.graphene.jobs import BASELINES, higher_percent
from treadle_lab.papers.graphene.simulations import (
    Offline,
    Result,
    gaps_percent,
    mean_shorter,
    median_shorter,
    throughput_higher,
)
from treadle_lab.plots import Panel, lines, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row

PERCENTILES = (50, 75, 90, 100)
ONE_QUEUE_OF = {"drf": "bfs", "graphene-across": "graphene"}
"""By scheme of two queues, that of one queue that it is compared with; else itself."""

Runs = Mapping[int, Mapping[str, Mapping[str, Result]]]
"""Results by seed, workload and scheme."""
Measure = Callable[[Result, Result], float]
"""Combines a scheme's result with the baseline's."""


def _gap_median(ours: Result, base: Result) -> float:
    return float(np.median(gaps_percent(ours, base)))


ONLINE: Mapping[str, tuple[Measure, float | None]] = {
    "median shorter than": (median_shorter, paper.MEDIAN_SHORTER_PERCENT),
    "median gap to": (_gap_median, paper.HALF_SHORTER_PERCENT),
    "mean shorter than": (mean_shorter, None),
}
"""Measures of jobs that arrive, in percent of a baseline, with the paper's figure of Graphene over breadth first."""
THROUGHPUT = "throughput over"
RANGE = {name: ONLINE[name] for name in ("median shorter than",)}
BATCH: Mapping[str, tuple[Measure, float | None]] = {THROUGHPUT: (throughput_higher, paper.THROUGHPUT_HIGHER_PERCENT)}


LAYOUTS = {
    "graphene-online": Layout("Completion times against each baseline", ("workload", "")),
    "graphene-batch": Layout("Throughput of batches against each baseline, and what is possible", ("workload", "")),
    "graphene-queues": Layout("Two queues: median longer than with one", ("scheme",)),
    "graphene-fairness": Layout("Two queues: Jain's index by window", ("scheme",), "x"),
    "graphene-wrong": Layout("Durations off by up to a factor"),
    "graphene-alone": Layout("One DAG alone, makespan over that without a plan"),
    "graphene-range": Layout("Over the generator's range: shorter than each baseline", ("stages", "")),
    "graphene-offline": Layout("Offline: executed makespan over the lower bound"),
    "graphene-offline-shorter": Layout("Offline: shorter than breadth first (%)"),
}
"""The bounds on throughput by work or path hold for any scheduler, the planner's for those without overbooking; one
plan for all jobs requires knowing them."""


def results_of(
    outcomes: Sequence[Outcome], offline: Offline | None, swept: Mapping[tuple[float, float], Offline]
) -> Results:
    """Return the results of one outcome per seed, and of the offline part if it was run."""
    online, batch, sweep = (
        {each.seed: getattr(each, part) for each in outcomes} for part in ("online", "batch", "sweep")
    )
    alone = {} if offline is None else offline.makespans
    bounds = {name: offline.over_bound(name) for name in alone if offline}
    shorter = {name: offline.shorter_percent(name) for name in alone if offline}
    rows = {
        "graphene-online": [*_own(online, "median (s)", lambda found: found.median_s), *_compared(online, ONLINE)],
        "graphene-batch": [
            *_own(batch, "batch (s)", lambda found: found.makespan_ms / 1000.0),
            *_compared(batch, BATCH),
            *_possible(outcomes),
        ],
        "graphene-queues": list(_longer(outcomes)),
        "graphene-fairness": [
            Row("Jain's index", scheme, f"{length} s", each.seed, value, "1")
            for each in outcomes
            for scheme, found in each.two_queues.items()
            for length, value in found.jain.items()
        ],
        "graphene-wrong": [
            Row("median shorter than breadth first (%)", name, "", each.seed, _shorter_than_bfs(each, found), "%")
            for each in outcomes
            for name, found in each.wrong.items()
        ],
        "graphene-alone": list(_spread(_alone(outcomes), "1")),
        "graphene-range": [*_compared(sweep, RANGE), *_offline_range(swept)],
        "graphene-offline": list(_spread(bounds, "1")),
        "graphene-offline-shorter": list(_spread(shorter, "%")),
    }
    facts = {"seeds": [each.seed for each in outcomes], "wall_s": sum(each.wall_s for each in outcomes)}
    return Results(LAYOUTS, rows, facts | {"lost": list(paper.LOST)})


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


def _longer(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Yield how much longer medians are than with one queue."""
    for outcome in outcomes:
        for scheme, result in outcome.two_queues.items():
            alone = outcome.one_queue[ONE_QUEUE_OF.get(scheme, scheme)]
            yield Row("longer (%)", scheme, "", outcome.seed, 100.0 * (result.median_s / alone.median_s - 1.0), "%")


def _offline_range(swept: Mapping[tuple[float, float], Offline]) -> Iterator[Row]:
    for point, found in swept.items():
        for number, value in enumerate(found.shorter_percent("graphene")):
            yield Row("median shorter than bfs (%)", "one DAG, offline", point_name(point), number, value, "%")


def _shorter_than_bfs(outcome: Outcome, result: Result) -> float:
    return median_shorter(result, outcome.one_queue["bfs"])


def _alone(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """Return makespans over those without a plan, by planning algorithm."""
    together = {name: np.concatenate([outcome.alone[name] for outcome in outcomes]) for name in outcomes[0].alone}
    return {name: (each / together["no plan"]).tolist() for name, each in together.items() if name != "no plan"}


def _spread(values: Mapping[str, Sequence[float]], unit: str) -> Iterator[Row]:
    """Yield mean, least and percentiles of some numbers by their name."""
    for name, each in values.items():
        found = {"mean": np.mean(each), "least": np.min(each)}
        found |= {f"p{part}": np.percentile(each, part) for part in PERCENTILES}
        yield from (Row(title, name, "", 0, float(value), unit) for title, value in found.items())


def plot_graphene(outcomes: Sequence[Outcome], offline: Offline | None, results: Results, folder: Path) -> list[Path]:
    """Draw the plots of the results and return their files."""
    drawn = {f"gaps-{workload}": _gaps(outcomes, workload) for workload in outcomes[0].online}
    if offline is not None:
        over = {name: share_up_to(offline.over_bound(name)) for name in offline.makespans}
        drawn["offline"] = Panel(over, "executed makespan over the lower bound", "share of DAGs")
    files = [panels([panel], folder / f"graphene-{name}.png") for name, panel in drawn.items()]
    gains = [row for row in results.rows["graphene-range"] if row.figure == "median shorter than bfs (%)"]
    named = {"fairness": results.rows["graphene-fairness"], "range": gains}
    return files + [lines(rows, folder / f"graphene-{name}.png") for name, rows in named.items() if rows]


def _gaps(outcomes: Sequence[Outcome], workload: str) -> Panel:
    runs = [outcome.online[workload] for outcome in outcomes]
    gaps = {
        scheme: share_up_to(np.concatenate([gaps_percent(run[scheme], run["bfs"]) for run in runs]))
        for scheme in runs[0]
        if scheme != "bfs"
    }
    what = f"{workload}: completion time shorter than with breadth first + capacity (%)"
    return Panel(gaps, what, "share of jobs", x_range=(-100, 100))

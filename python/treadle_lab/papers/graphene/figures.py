"""Graphene's results over seeds: figures with their intervals, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treadle.simulate.comparison import Interval, interval_of
from treadle_lab.papers.graphene import paper
from treadle_lab.papers.graphene.experiment import Outcome, point_name
from treadle_lab.papers.graphene.jobs import BASELINES, higher_percent
from treadle_lab.papers.graphene.simulations import (
    BatchBounds,
    Offline,
    Result,
    gaps_percent,
    mean_shorter,
    median_shorter,
    throughput_higher,
)
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import plain

Table = dict[str, dict[str, Interval]]
PERCENTILES = (50, 75, 90, 100)
ONE_QUEUE_OF = {"drf": "bfs", "graphene-across": "graphene"}
"""By scheme of two queues, that of one queue that it is compared with; else itself."""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures; intervals are over seeds. What was not run is empty.

    Percentages are against breadth first + capacity that counts all resources, unless a baseline is said
    (`treadle_lab.papers.graphene.jobs.BASELINES`).
    """

    seeds: tuple[int, ...]
    median_s: Table
    """By workload and scheme: the median completion time."""
    median_shorter: dict[str, Table]
    """By baseline, workload and scheme: by how many percent that is shorter."""
    mean_shorter: dict[str, Table]
    """The same of the mean completion time."""
    gap_median: dict[str, Table]
    """By baseline, workload and scheme: the median over jobs of the paper's normalised gap, in percent."""
    batch_s: Table
    """By workload and scheme: the makespan of a batch."""
    throughput_higher: dict[str, Table]
    """By baseline, workload and scheme: the throughput of a batch, by how many percent it is higher."""
    throughput_possible: dict[str, Table]
    """By baseline, workload and `simulations.BatchBounds`: by how many percent the throughput of such a makespan is
    higher. The bound of work or path holds for any scheduler, the planner's for those that give nothing out twice; one
    plan for all jobs can be reached by who knows them."""
    two_queues_longer: dict[str, Interval]
    """By scheme: by how many percent the median completion time is longer with two queues than with one."""
    jain: Table
    """By scheme and length of window in seconds; draws without a window in which both queues are busy are left out."""
    wrong_shorter: dict[str, Interval]
    """By scheme and factor: by how many percent the median is shorter with durations off by up to the factor."""
    alone: dict[str, dict[str, float]]
    """By what single DAGs are planned by: their makespans over those without a plan, over all seeds."""
    sweep_shorter: dict[str, Table]
    """By baseline, "long L, fragmenting F" and scheme: by how many percent the median completion time is shorter."""
    offline_over_bound: dict[str, dict[str, float]]
    """By algorithm: executed makespan over the lower bound, over DAGs."""
    offline_shorter: dict[str, dict[str, float]]
    """By algorithm: by how many percent the executed makespan is shorter than breadth first's, over DAGs."""
    offline_sweep: dict[str, float]
    """By "long L, fragmenting F": by how many percent plans are shorter than breadth first, the mean over DAGs."""
    wall_s: float

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON takes it: intervals have mean, low and high; the paper's figures beside them."""
        found = {name: plain(getattr(self, name)) for name in self.__slots__}
        found["paper"] = {
            "median_shorter": paper.MEDIAN_SHORTER_PERCENT,
            "throughput_higher": paper.THROUGHPUT_HIGHER_PERCENT,
            "gap_median": paper.HALF_SHORTER_PERCENT,
            "lost": list(paper.LOST),
        }
        return found


def report_of(
    outcomes: Sequence[Outcome], offline: Offline | None, offline_sweep: Mapping[tuple[float, float], Offline]
) -> Report:
    """Return the results of one outcome per seed, and of the offline part if it was run."""
    makespans = offline.makespans if offline is not None else ()
    return Report(
        seeds=tuple(outcome.seed for outcome in outcomes),
        median_s=_table([outcome.online for outcome in outcomes], "bfs", lambda ours, _: ours.median_s),
        median_shorter=_against([outcome.online for outcome in outcomes], median_shorter),
        mean_shorter=_against([outcome.online for outcome in outcomes], mean_shorter),
        gap_median=_against(
            [outcome.online for outcome in outcomes], lambda ours, base: float(np.median(gaps_percent(ours, base)))
        ),
        batch_s=_table([outcome.batch for outcome in outcomes], "bfs", lambda ours, _: ours.makespan_ms / 1000.0),
        throughput_higher=_against([outcome.batch for outcome in outcomes], throughput_higher),
        throughput_possible=_possible(outcomes),
        two_queues_longer=_two_queues(outcomes),
        jain=_jain(outcomes),
        wrong_shorter={
            name: interval_of([median_shorter(outcome.wrong[name], outcome.one_queue["bfs"]) for outcome in outcomes])
            for name in outcomes[0].wrong
        },
        alone=_alone(outcomes),
        sweep_shorter=_against([outcome.sweep for outcome in outcomes], median_shorter),
        offline_over_bound={name: spread(offline.over_bound(name)) for name in makespans if offline},
        offline_shorter={name: spread(offline.shorter_percent(name)) for name in makespans if offline},
        offline_sweep={
            point_name(point): float(np.mean(each.shorter_percent("graphene"))) for point, each in offline_sweep.items()
        },
        wall_s=sum(outcome.wall_s for outcome in outcomes),
    )


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return mean, percentiles and the least of some numbers."""
    found = {"mean": float(np.mean(values)), "least": float(np.min(values))}
    return found | {f"p{part}": float(np.percentile(values, part)) for part in PERCENTILES}


Runs = Sequence[Mapping[str, Mapping[str, Result]]]
"""Results by workload and scheme, of each seed."""
Measure = Callable[[Result, Result], float]
"""Of a scheme's result, and that of what it is compared with."""


def _possible(outcomes: Sequence[Outcome]) -> dict[str, Table]:
    """Return how much higher throughput could be, by baseline, workload and the bound that shows it."""
    bounds: dict[str, Callable[[BatchBounds], int]] = {
        "work or path bound": lambda each: max(each.work_ms, each.path_ms),
        "planner's bound": lambda each: each.planner_ms,
        "one plan": lambda each: each.one_plan_ms,
        "one DAG, breadth first": lambda each: each.one_breadth_first_ms,
    }

    def possible(base: str, workload: str, bound: Callable[[BatchBounds], int]) -> Interval:
        pairs = [(bound(each.batch_bounds[workload]), each.batch[workload][base].makespan_ms) for each in outcomes]
        return interval_of([higher_percent(least_ms, took_ms) for least_ms, took_ms in pairs])

    known = next(iter(outcomes[0].batch.values()), {})
    return {
        base: {
            workload: {name: possible(base, workload, bound) for name, bound in bounds.items()}
            for workload in outcomes[0].batch
        }
        for base in BASELINES
        if base in known
    }


def _against(runs: Runs, figure: Measure) -> dict[str, Table]:
    """Return the interval of a figure by baseline, workload and scheme; without baselines that were not run."""
    known = next(iter(runs[0].values()), {})
    return {base: _table(runs, base, figure) for base in BASELINES if base in known}


def _table(runs: Runs, base: str, figure: Measure) -> Table:
    """Return the interval of a figure of each scheme and a baseline, by workload and scheme."""
    return {
        workload: {
            scheme: interval_of([figure(run[workload][scheme], run[workload][base]) for run in runs])
            for scheme in schemes
        }
        for workload, schemes in runs[0].items()
    }


def _two_queues(outcomes: Sequence[Outcome]) -> dict[str, Interval]:
    """Return how much longer the median is than with one queue."""
    found = {}
    for scheme in outcomes[0].two_queues:
        alone = ONE_QUEUE_OF.get(scheme, scheme)
        values = [
            100.0 * (outcome.two_queues[scheme].median_s / outcome.one_queue[alone].median_s - 1.0)
            for outcome in outcomes
        ]
        found[scheme] = interval_of(values)
    return found


def _jain(outcomes: Sequence[Outcome]) -> Table:
    """Return Jain's index by scheme and window, over the draws in which both queues are busy for as long as that."""
    found: Table = {}
    for scheme, result in outcomes[0].two_queues.items():
        found[scheme] = {}
        for seconds in result.jain:
            values = [outcome.two_queues[scheme].jain[seconds] for outcome in outcomes]
            known = [value for value in values if np.isfinite(value)]
            found[scheme][str(seconds)] = interval_of(known or [float("nan")])
    return found


def _alone(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Return the spread of makespans over those without a plan, by what the DAGs are planned by."""
    if not outcomes[0].alone:
        return {}
    natural = np.concatenate([outcome.alone["no plan"] for outcome in outcomes])
    return {
        name: spread((np.concatenate([outcome.alone[name] for outcome in outcomes]) / natural).tolist())
        for name in outcomes[0].alone
        if name != "no plan"
    }


def plot_graphene(outcomes: Sequence[Outcome], offline: Offline | None, report: Report, folder: Path) -> list[Path]:
    """Draw the plots of what was run and return their files."""
    drawn = {f"gaps-{workload}": _gaps(outcomes, workload) for workload in outcomes[0].online}
    if offline is not None:
        over = {name: share_up_to(offline.over_bound(name)) for name in offline.makespans}
        drawn["offline"] = Panel(over, "executed makespan over the lower bound", "share of DAGs")
    if report.jain:
        fair = {
            scheme: Line([float(window) for window in windows], [each.mean for each in windows.values()])
            for scheme, windows in report.jain.items()
        }
        drawn["fairness"] = Panel(fair, "window (s)", "Jain's index of two queues", marker="o")
    if report.sweep_shorter or report.offline_sweep:
        online = {point: table["graphene"].mean for point, table in report.sweep_shorter.get("bfs", {}).items()}
        gains = online or report.offline_sweep
        what = f"{'median completion time' if online else 'makespan of one DAG'} shorter (%)"
        drawn["range"] = Panel({"graphene": Line(list(gains), list(gains.values()))}, "", what)
    return [panels([panel], folder / f"graphene-{name}.png") for name, panel in drawn.items()]


def _gaps(outcomes: Sequence[Outcome], workload: str) -> Panel:
    runs = [outcome.online[workload] for outcome in outcomes]
    gaps = {
        scheme: share_up_to(np.concatenate([gaps_percent(run[scheme], run["bfs"]) for run in runs]))
        for scheme in runs[0]
        if scheme != "bfs"
    }
    what = f"{workload}: completion time shorter than with breadth first + capacity (%)"
    return Panel(gaps, what, "share of jobs", x_range=(-100, 100))

"""What `treadle reproduce graphene-cluster` found: completion times by scheme, and what is missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from rich.box import SIMPLE
from rich.table import Table

from treadle.lab.harness.outcomes import failed
from treadle.lab.harness.statistics import Interval, interval_of
from treadle.lab.harness.tables import empty_table
from treadle.lab.reproduce.graphene_cluster.experiment import SCHEMES, WAIT_MS, Round, Scheme
from treadle.lab.reproduce.graphene_cluster.jobs import DagSettings

__all__ = ["completions", "document", "gaps_percent", "makespans", "median_shorter", "shortfalls", "table"]

STOCK: Final = "stock"
OURS: Final = "both"
SILENT: Final = "silent"
GOAL: Final = 25.0
"""Goal: percent by which the median completion time is shorter with both than with stock."""


def completions(rounds: Sequence[Round], scheme: str, seed: int | None = None) -> list[int]:
    """Return the completion times under a scheme, of one draw or of all, in milliseconds."""
    return [
        job.completion_ms for one in rounds if one.scheme == scheme and seed in (None, one.seed) for job in one.jobs
    ]


def makespans(rounds: Sequence[Round], scheme: str) -> list[int]:
    """Return the makespan of each draw under a scheme, in milliseconds."""
    return [one.makespan_ms for one in rounds if one.scheme == scheme]


def median_shorter(rounds: Sequence[Round], scheme: str) -> float:
    """Return by how many percent the median over all DAGs of all draws is shorter than with stock."""
    return 100.0 * (1.0 - median(completions(rounds, scheme)) / median(completions(rounds, STOCK)))


def gaps_percent(rounds: Sequence[Round], scheme: str) -> list[float]:
    """Return by how many percent each DAG ends sooner than with stock; both have the DAGs in the same order."""
    found = []
    for seed in sorted({one.seed for one in rounds}):
        pairs = zip(completions(rounds, scheme, seed), completions(rounds, STOCK, seed), strict=True)
        found += [100.0 * (1.0 - ours / theirs) for ours, theirs in pairs]
    return found


def mean_shorter(rounds: Sequence[Round], scheme: str) -> Interval:
    """Return by how many percent the mean completion time is shorter than with stock, one value a draw."""
    seeds = sorted({one.seed for one in rounds})
    means = [(mean(completions(rounds, scheme, seed)), mean(completions(rounds, STOCK, seed))) for seed in seeds]
    return interval_of([100.0 * (1.0 - ours / theirs) for ours, theirs in means])


def table(rounds: Sequence[Round]) -> Table:
    """Return completion times and makespans in seconds, and how much shorter they are than with stock."""
    shown = empty_table(
        "Completion times of DAGs (s)",
        ("scheme",),
        ("median", "shorter", "mean", "shorter", "DAG by DAG", "makespan", "containers", "planned"),
        box=SIMPLE,
    )
    for scheme in SCHEMES:
        found = _summary(rounds, scheme)
        jobs = [job for one in rounds if one.scheme == scheme.name for job in one.jobs]
        shown.add_row(
            scheme.title,
            f"{found['median_ms'] / 1000:.1f}",
            f"{found['median_shorter_percent']:.0f} %",
            f"{found['mean_ms'] / 1000:.1f}",
            f"{mean_shorter(rounds, scheme.name)} %",
            f"{found['gap_median_percent']:.0f} %",
            f"{found['makespan_mean_ms'] / 1000:.1f}",
            str(sum(job.containers for job in jobs)),
            f"{sum(job.planned for job in jobs)} of {len(jobs)}",
        )
    return shown


def shortfalls(rounds: Sequence[Round]) -> list[str]:
    """Say what is not as it should be: DAGs that failed or had no plan, and the goal if it is missed."""
    found = failed(rounds)
    plans = {scheme.name: scheme.plans for scheme in SCHEMES}
    found += [
        f"seed {one.seed}, {one.scheme}: {job.name} {'followed no plan' if plans[one.scheme] else 'followed a plan'}"
        for one in rounds
        for job in one.jobs
        if job.planned != plans[one.scheme]
    ]
    reached = median_shorter(rounds, OURS)
    if reached < GOAL:
        found.append(f"the median is {reached:.0f} % shorter with plan and scoring; the goal is {GOAL:.0f} %")
    longer_ms = median(completions(rounds, SILENT)) - median(completions(rounds, STOCK))
    if longer_ms > WAIT_MS:
        found.append(
            f"where nobody answers the plug-in, the median is {longer_ms / 1000:.1f} s longer; "
            f"the wait is bounded to {WAIT_MS / 1000:.0f} s"
        )
    return found


def document(rounds: Sequence[Round], settings: DagSettings) -> dict[str, Any]:
    """Return everything for ``--json``; every draw must have run under every scheme."""
    return {
        "settings": asdict(settings),
        "wait_ms": WAIT_MS,
        "goal_percent": GOAL,
        "schemes": {scheme.name: _summary(rounds, scheme) for scheme in SCHEMES},
        "shortfalls": shortfalls(rounds),
        "rounds": [asdict(one) for one in rounds],
    }


def _summary(rounds: Sequence[Round], scheme: Scheme) -> dict[str, Any]:
    times = completions(rounds, scheme.name)
    return {
        "title": scheme.title,
        "median_ms": median(times),
        "median_shorter_percent": median_shorter(rounds, scheme.name),
        "mean_ms": mean(times),
        "mean_shorter_percent": mean_shorter(rounds, scheme.name).as_json(),
        "gap_median_percent": median(gaps_percent(rounds, scheme.name)),
        "makespan_mean_ms": mean(makespans(rounds, scheme.name)),
    }


def plot_completions(rounds: Sequence[Round], target: Path) -> None:
    """Write one chart: the share of DAGs that have ended within a time, and by how much each ends sooner."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    times, gaps = figure.subplots(1, 2)
    for scheme in SCHEMES:
        seconds = sorted(time_ms / 1000 for time_ms in completions(rounds, scheme.name))
        shares = [(place + 1) / len(seconds) for place in range(len(seconds))]
        times.step([0, *seconds], [0, *shares], where="post", label=scheme.title)
    times.set_xlabel("completion time (s)")
    times.set_ylabel("share of DAGs")
    times.legend(fontsize=6)
    others = SCHEMES[1:]
    gaps.boxplot([gaps_percent(rounds, scheme.name) for scheme in others])
    gaps.set_xticks(range(1, len(others) + 1), [scheme.name for scheme in others])
    gaps.axhline(0.0, color="grey", linewidth=0.8)
    gaps.set_ylabel("sooner than stock (%)")
    figure.savefig(target, dpi=150)

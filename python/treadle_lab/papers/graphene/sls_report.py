"""What `treadle reproduce graphene --on sls` found: completion times by scheme, and what is missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, median
from typing import Any, Final

from rich.box import SIMPLE
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.harness.statistics import Interval, interval_of
from treadle_lab.papers.graphene.sls import HEARTBEAT_MS, OURS, SCHEMES, STOCK, TIMES, Draw, Size, TestbedScheme
from treadle_lab.sls.pace import behind, shown

__all__ = ["GOAL", "document", "shortfalls", "table"]

GOAL: Final = 25.0
"""Percent by which the median is to be shorter with Graphene than in Tez's order with stock capacity."""


TETRIS: Final = "tetris"


def _played(draws: Sequence[Draw]) -> list[TestbedScheme]:
    return [scheme for scheme in SCHEMES if scheme.name in draws[0].runs]


def _times_s(draw: Draw, scheme: str) -> list[float]:
    return [job.completion_ms / 1000 for job in draw.runs[scheme].jobs]


def _shorter(ours: float, theirs: float) -> float:
    return 100.0 * (1.0 - ours / theirs)


def median_shorter(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> Interval:
    """Return by how many percent a draw's median completion time is shorter, one value a draw."""
    return interval_of([_shorter(median(_times_s(each, scheme)), median(_times_s(each, base))) for each in draws])


def mean_shorter(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> Interval:
    """Return the same of the mean."""
    return interval_of([_shorter(mean(_times_s(each, scheme)), mean(_times_s(each, base))) for each in draws])


def gap_median(draws: Sequence[Draw], scheme: str, base: str = STOCK) -> float:
    """Return the median over all jobs of the paper's gap: by how many percent of that a job ends sooner."""
    return median(
        _shorter(ours, theirs)
        for each in draws
        for ours, theirs in zip(_times_s(each, scheme), _times_s(each, base), strict=True)
    )


def _span_s(draws: Sequence[Draw], scheme: str) -> Interval:
    return interval_of([each.runs[scheme].span_ms / 1000 for each in draws])


def _planned(draws: Sequence[Draw], scheme: str) -> tuple[int, int]:
    jobs = [job for each in draws for job in each.runs[scheme].jobs]
    return sum(job.planned for job in jobs), len(jobs)


def table(draws: Sequence[Draw]) -> Table:
    """Return completion times, in the testbed's seconds, and how much shorter they are than with stock."""
    rows = empty_table(
        "Completion times of DAGs on the testbed (s)",
        ("scheme",),
        ("median", "shorter (%)", "mean", "shorter (%)", "DAG by DAG (%)", "span", "planned", "natively", "pace"),
        box=SIMPLE,
    )
    for scheme in _played(draws):
        planned, jobs = _planned(draws, scheme.name)
        rows.add_row(
            scheme.title,
            f"{mean(median(_times_s(each, scheme.name)) for each in draws):.1f}",
            str(median_shorter(draws, scheme.name)),
            f"{mean(mean(_times_s(each, scheme.name)) for each in draws):.1f}",
            str(mean_shorter(draws, scheme.name)),
            f"{gap_median(draws, scheme.name):.0f}",
            str(_span_s(draws, scheme.name)),
            f"{planned} of {jobs}",
            str(sum(each.runs[scheme.name].placed_natively for each in draws)) if scheme.scoring else "",
            shown([each.runs[scheme.name].pace for each in draws]),
        )
    return rows


def shortfalls(draws: Sequence[Draw]) -> list[str]:
    """Say what is not as it should be: jobs that did not end or had no plan, native placements, a machine too slow.

    The goal too, if it is missed.
    """
    found = []
    for scheme in _played(draws):
        for draw in draws:
            run, where = draw.runs[scheme.name], f"seed {draw.seed}, {scheme.name}"
            found += [f"{where}: {job.name} ended as {job.status}" for job in run.jobs if job.status != "SUCCEEDED"]
            if without := sum(job.planned != scheme.plans for job in run.jobs):
                found.append(f"{where}: {without} jobs {'had no plan' if scheme.plans else 'had a plan'}")
            if scheme.scoring and run.placed_natively:
                found.append(f"{where}: the stock scheduler placed {run.placed_natively} containers in Treadle's stead")
            found += behind({where: run.pace})
    if OURS in draws[0].runs and (reached := median_shorter(draws, OURS)).mean < GOAL:
        found.append(f"the median is {reached} % shorter with Graphene than with stock; the goal is {GOAL:.0f} %")
    return found


def _beside_tetris(draws: Sequence[Draw], scheme: str) -> dict[str, Any]:
    if TETRIS not in draws[0].runs:
        return {}
    return {
        "median_shorter_than_tetris": median_shorter(draws, scheme, TETRIS).as_json(),
        "mean_shorter_than_tetris": mean_shorter(draws, scheme, TETRIS).as_json(),
    }


def document(draws: Sequence[Draw], size: Size) -> dict[str, Any]:
    """Return everything for ``--json``; times in milliseconds of the testbed."""
    return {
        "seeds": [draw.seed for draw in draws],
        "size": asdict(size),
        "times": TIMES,
        "heartbeat_ms": HEARTBEAT_MS,
        "goal_percent": GOAL,
        "schemes": {
            scheme.name: {
                "title": scheme.title,
                "median_s": interval_of([median(_times_s(each, scheme.name)) for each in draws]).as_json(),
                "mean_s": interval_of([mean(_times_s(each, scheme.name)) for each in draws]).as_json(),
                "median_shorter": median_shorter(draws, scheme.name).as_json(),
                "mean_shorter": mean_shorter(draws, scheme.name).as_json(),
                **_beside_tetris(draws, scheme.name),
                "gap_median": gap_median(draws, scheme.name),
                "span_s": _span_s(draws, scheme.name).as_json(),
                "by_draw": [
                    _shorter(median(_times_s(each, scheme.name)), median(_times_s(each, STOCK))) for each in draws
                ],
                "planned": _planned(draws, scheme.name)[0],
            }
            for scheme in _played(draws)
        },
        "shortfalls": shortfalls(draws),
        "draws": [
            {
                "seed": draw.seed,
                "tasks": draw.tasks,
                "runs": {scheme: run.as_json() for scheme, run in draw.runs.items()},
            }
            for draw in draws
        ],
    }

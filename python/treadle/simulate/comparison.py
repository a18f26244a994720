"""What sets runs side by side: slowdowns by class and queue, and policies pair by pair, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import nan
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle.simulate.figures import SIZES, STATISTICS, Table, completion_s, figures_of, size_classes, slowdown
from treadle.simulate.run import Run
from treadle.simulate.statistics import Interval, interval_of, interval_of_ratio
from treadle.simulate.verdicts import Verdict, lateness, verdict_of
from treadle.simulator.results import Summary


@dataclass(frozen=True, slots=True)
class Slowdown:
    """How many times as long as their bounds the jobs of a group took under a policy; a value a seed, then the mean."""

    policy: str
    by: str
    """all, size or queue."""
    group: str
    jobs: int
    """That ended well, of all seeds."""
    mean: Interval
    p50: Interval
    p99: Interval
    completion_mean_s: Interval


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies on the same jobs and seeds."""

    policy: str
    other: str
    jobs: int
    """That ended well under both, of all seeds: only these are compared."""
    ratio: Interval
    """Mean completion time under ``policy`` over that under ``other``: below 1 ``policy`` is quicker."""
    p99_ratio: Interval
    sooner: Interval
    """Fraction of jobs that ended sooner under ``policy``; of the rest some ended at the same instant."""


COMPARED: Final = (
    *(f"completion, {statistic}" for statistic in STATISTICS),
    "wait, mean",
    "slowdown, mean",
    "bounded slowdown, mean",
    "bounded slowdown, P99",
)
"""Figures for which a policy is compared with a baseline."""


@dataclass(frozen=True, slots=True)
class Against:
    """A policy against a baseline, on the jobs that ended well under both, draw by draw."""

    policy: str
    figures: dict[str, Verdict]
    """By the names of `COMPARED`."""
    late: Interval
    """Share of jobs that took over 10 % longer than under the baseline."""
    worst: Interval
    """The largest ratio of a job's completion times."""


def tables_of(runs: Sequence[Run | Summary]) -> dict[str, dict[int, Table]]:
    """Return the table of jobs by policy, in the order given, and by seed."""
    found: dict[str, dict[int, Table]] = {}
    for run in runs:
        jobs: Table = run.jobs if isinstance(run, Run) else run.job_records
        found.setdefault(run.policy, {})[run.seed] = jobs
    return found


def slowdowns_of(runs: Sequence[Run | Summary]) -> list[Slowdown]:
    """Return the slowdowns of all jobs, of each class of sizes and of each queue, policy by policy."""
    return [
        _slowdown(policy, by, group, [(table, mask(table)) for table in tables.values()])
        for policy, tables in tables_of(runs).items()
        for by, group, mask in _groups(tables)
    ]


def pairs_of(runs: Sequence[Run | Summary]) -> list[Pair]:
    """Return each pair of policies, compared by the seeds that both have."""
    tables = tables_of(runs)
    return [_pair(one, two, tables[one], tables[two]) for one, two in combinations(tables, 2)]


def against_of(runs: Sequence[Run | Summary], baseline: str) -> list[Against]:
    """Return every policy but the baseline against the baseline, by the seeds that both have.

    Raises:
        ValueError: the runs are of different jobs.
    """
    tables = tables_of(runs)
    return [_against(policy, tables[policy], tables[baseline]) for policy in tables if policy != baseline]


def _against(policy: str, tables: Mapping[int, Table], others: Mapping[int, Table]) -> Against:
    seeds = sorted(set(tables) & set(others))
    pairs = [_well(tables[seed], others[seed]) for seed in seeds]
    mine, its = ([figures_of(pair[at]) for pair in pairs] for at in (0, 1))
    late = [lateness(completion_s(one), completion_s(two)) for one, two in pairs]
    figures = {
        name: verdict_of([each.get(name, nan) for each in mine], [each.get(name, nan) for each in its])
        for name in COMPARED
    }
    return Against(
        policy, figures, interval_of([share for share, _ in late]), interval_of([worst for _, worst in late])
    )


def _well(jobs: Table, others: Table) -> tuple[Table, Table]:
    """Return the columns that figures need of the jobs that ended well in both tables."""
    _check_same(jobs, others)
    well = np.isfinite(completion_s(jobs)) & np.isfinite(completion_s(others))
    columns = ("arrival_ms", "end_ms", "state", "tasks", "ideal_ms")
    one, two = ({name: np.asarray(table[name])[well] for name in columns} for table in (jobs, others))
    return one, two


def _groups(tables: Mapping[int, Table]) -> Iterator[tuple[str, str, Any]]:
    """Yield each group of jobs: what it is by, its name, and what says of each job of a table whether it is in it."""
    yield "all", "all", lambda table: np.ones(len(table["tasks"]), bool)
    seen = {name for table in tables.values() for name in size_classes(table)}
    for _, name in SIZES:
        if name in seen:
            yield "size", name, lambda table, name=name: size_classes(table) == name
    for queue in sorted({str(queue) for table in tables.values() for queue in table["queue"]}):
        yield "queue", queue, lambda table, queue=queue: np.asarray(table["queue"], object) == queue


def _slowdown(policy: str, by: str, group: str, chosen: Sequence[tuple[Table, Any]]) -> Slowdown:
    slow = [slowdown(table)[mask] for table, mask in chosen]
    took = [completion_s(table)[mask] for table, mask in chosen]
    return Slowdown(
        policy,
        by,
        group,
        sum(int(np.isfinite(each).sum()) for each in took),
        interval_of([_mean(each) for each in slow]),
        interval_of([_quantile(each, 0.5) for each in slow]),
        interval_of([_quantile(each, 0.99) for each in slow]),
        interval_of([_mean(each) for each in took]),
    )


def _pair(policy: str, other: str, tables: Mapping[int, Table], others: Mapping[int, Table]) -> Pair:
    times = [_both(tables[seed], others[seed]) for seed in sorted(set(tables) & set(others))]
    return Pair(
        policy,
        other,
        sum(len(mine) for mine, _ in times),
        interval_of_ratio([_mean(mine) for mine, _ in times], [_mean(its) for _, its in times]),
        interval_of_ratio([_quantile(mine, 0.99) for mine, _ in times], [_quantile(its, 0.99) for _, its in times]),
        interval_of([float((mine < its).mean()) if len(mine) else float("nan") for mine, its in times]),
    )


def _both(jobs: Table, others: Table) -> tuple[F64, F64]:
    """Return the completion times of the jobs that ended well in both tables.

    Raises:
        ValueError: the tables are of different jobs.
    """
    _check_same(jobs, others)
    mine, its = completion_s(jobs), completion_s(others)
    well = np.isfinite(mine) & np.isfinite(its)
    return mine[well], its[well]


def _check_same(jobs: Table, others: Table) -> None:
    if list(jobs["id"]) != list(others["id"]):
        raise ValueError("the runs are of different jobs: compare policies on the same scenario and seed")


def _mean(values: F64) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _quantile(values: F64, share: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, share)) if len(known) else float("nan")


def as_rows(found: Sequence[Slowdown | Pair]) -> list[dict[str, Any]]:
    """Return what was found as JSON takes it, a mapping a row."""
    rows = []
    for each in found:
        values = asdict(each) | {field: getattr(each, field) for field in each.__slots__}
        rows.append({name: value.as_json() if isinstance(value, Interval) else value for name, value in values.items()})
    return rows

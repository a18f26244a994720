"""Comparison of runs: slowdowns by class and queue, and pairs of policies, with intervals over seeds.

Intervals are 95 % intervals by Student's t, with one value per seed. Whether a policy is better than a baseline is
decided by Student's t over log ratios of paired draws; *undecided* is a possible result. Results are also written as
tables, in CSV or Parquet, for spreadsheets, R and data frames.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, exp, inf, isfinite, log, nan, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.config.settings import Settings
from treadle.errors import UserError, install_extra
from treadle.simulate.batch import (
    SIZES,
    STATISTICS,
    Run,
    RunSpec,
    Scenario,
    Table,
    completion_s,
    figures_of,
    settings_of,
    size_classes,
    slowdown,
)
from treadle.simulator.results import Summary, statistic_of

FEW: Final = 10
"""With fewer seeds than this an interval is unreliable: one outlier may determine it."""

LEVEL: Final = 0.95
_STUDENT: Final = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
)
"""Student's t for 1 to 20 degrees of freedom."""


class Interval(NamedTuple):
    """A figure with its 95 % interval; all three are equal for a single seed."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the figure, and the interval if there is one."""
        return f"{self.mean:.4g}" if self.low == self.high else f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g})"

    def as_json(self) -> dict[str, float | None]:
        """Return the figure and the interval; NaN is null."""
        return {name: value if np.isfinite(value) else None for name, value in self._asdict().items()}


def student(degrees: int) -> float:
    """Return the two-sided 95 % quantile of Student's t."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    # Fisher's expansion about the normal distribution; from 21 degrees on it is off by less than one in 100,000
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def interval_of(values: Sequence[float] | F64) -> Interval:
    """Return the mean of one value per seed, and its interval; NaN and infinite values are omitted."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return Interval(float("nan"), float("nan"), float("nan"))
    return _around(float(known.mean()), known)


def interval_of_difference(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of the differences of ``values`` less ``others``, one pair a seed, and its interval.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    return interval_of(one - two)


def interval_of_ratio(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Interval:
    """Return the mean of ``values`` over the mean of ``others``, one pair a seed, and its interval.

    The interval is that of the deviations of pairs from the common ratio: what makes a seed slow for both does not
    widen it, and a seed with a small value does not weigh more than others. NaN where the others add up to 0.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    base = float(two.mean()) if len(two) else 0.0
    if base == 0.0:
        return Interval(float("nan"), float("nan"), float("nan"))
    ratio = float(one.mean()) / base
    return _around(ratio, (one - ratio * two) / abs(base))


def _around(figure: float, values: F64) -> Interval:
    """Return a figure with the interval of the mean of values, whatever that mean is."""
    if len(values) == 1:
        return Interval(figure, figure, figure)
    half = student(len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return Interval(figure, figure - half, figure + half)


def _pairs(values: Sequence[float] | F64, others: Sequence[float] | F64) -> tuple[F64, F64]:
    one, two = np.asarray(values, np.float64), np.asarray(others, np.float64)
    if one.shape != two.shape:
        raise ValueError(f"{len(one)} values and {len(two)} others: give one pair a seed")
    both = np.isfinite(one) & np.isfinite(two)
    return one[both], two[both]


RESOLVED: Final = 0.02
"""The half width, as a fraction, for which `Verdict.needed` draws are sufficient."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure under a policy over the same figure under a baseline, draw by draw; changes are in per cent."""

    draws: int
    change: float
    """By the geometric mean of the ratios; below 0 the policy's figure is smaller."""
    low: float
    high: float
    """The 95 % interval of the change; infinite for a single draw."""
    needed: int | None
    """Number of draws for a 2 % interval to either side, from the deviation of these draws; None: unknown."""

    @property
    def word(self) -> Literal["less", "more", "undecided"]:
        """Return on which side of 0 the whole interval lies."""
        if self.high < 0.0:
            return "less"
        return "more" if self.low > 0.0 else "undecided"

    @property
    def half_width(self) -> float:
        """Return half the interval's width."""
        return (self.high - self.low) / 2

    @property
    def change_text(self) -> str:
        """Return the change; - without draws."""
        return f"{self.change:+.1f} %" if self.draws else "-"

    @property
    def interval_text(self) -> str:
        """Return the interval; - for fewer than two draws."""
        return f"{self.low:+.1f} to {self.high:+.1f}" if isfinite(self.high) else "-"

    def __str__(self) -> str:
        """Return change and half width, whether it is undecided and the draws that 2 % needs; draws if they are few."""
        if not self.draws:
            return "-"
        half = f" ±{self.half_width:.1f}" if isfinite(self.half_width) else ""
        notes: list[str] = [self.word] if self.word == "undecided" else []
        if notes and self.needed is not None:
            notes.append(f"2 % needs {self.needed} draws")
        if self.draws < FEW:
            notes.append(f"only {self.draws}")
        return ", ".join([f"{self.change_text}{half}", *notes])


LATER: Final = 1.1
"""A job ends later than under the baseline if it takes more than this multiple of its time."""


def lateness(took: F64, others: F64) -> tuple[float, float]:
    """Return the fraction of jobs that take over 10 % longer than under the baseline, and the worst ratio.

    Args:
        took: duration of each job
        others: durations of the same jobs under the baseline
    """
    known = np.isfinite(took) & np.isfinite(others) & (others > 0)
    ratios = took[known] / others[known]
    return (float((ratios > LATER).mean()), float(ratios.max())) if len(ratios) else (nan, nan)


def verdict_of(values: Sequence[float] | F64, others: Sequence[float] | F64) -> Verdict:
    """Return the verdict on ``values`` against ``others``, one pair a draw; only positive ratios count.

    Raises:
        ValueError: there are not as many of both.
    """
    one, two = _pairs(values, others)
    known = (one > 0) & (two > 0)
    logs = np.log(one[known] / two[known])
    count = len(logs)
    if not count:
        return Verdict(0, nan, nan, nan, None)
    mean = float(logs.mean())
    if count == 1:
        return Verdict(1, _percent(mean), -inf, inf, None)
    deviation = float(logs.std(ddof=1))
    half = student(count - 1) * deviation / sqrt(count)
    return Verdict(count, _percent(mean), _percent(mean - half), _percent(mean + half), _needed(deviation))


def _percent(ratio: float) -> float:
    return 100.0 * (exp(ratio) - 1.0)


def _needed(deviation: float) -> int:
    """Return the least number of draws whose interval of log ratios is `RESOLVED` to either side."""
    wanted, count = log(1.0 + RESOLVED), 2
    while student(count - 1) * deviation / sqrt(count) > wanted:
        # the t of fewer draws is larger, so that this never goes beyond the least number
        count = max(count + 1, ceil((student(10**6) * deviation / wanted) ** 2))
    return count


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Completion time over lower bound of a group of jobs under a policy; a value per seed, then the mean."""

    policy: str
    by: str
    """all, size or queue."""
    group: str
    jobs: int
    """Successful jobs of all seeds."""
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
    """Jobs successful under both, of all seeds: only these are compared."""
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
    """Fraction of jobs that took over 10 % longer than under the baseline."""
    worst: Interval
    """The largest ratio of a job's completion times."""


def tables_of(runs: Sequence[Run | Summary]) -> dict[str, dict[int, Table]]:
    """Return the table of jobs by policy, in the order given, and by seed."""
    tables: dict[str, dict[int, Table]] = {}
    for run in runs:
        jobs: Table = run.jobs if isinstance(run, Run) else run.job_records
        tables.setdefault(run.policy, {})[run.seed] = jobs
    return tables


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


TRIED_AGAINST: Final = "fair"
"""The ready-made baseline for tried policies: YARN's own order among applications."""

TRIED_SEEDS: Final = 10

_TRIED_ON: Final[dict[str, Any]] = {
    "cluster": {"nodes": [{"count": 4, "resources": {"memory-mb": 65_536, "vcores": 16}, "racks": 2}]},
    "queues": {"research": {"capacity": 60}, "production": {"capacity": 40}},
}
TRIED: Final[Mapping[str, dict[str, Any]]] = {
    "MapReduce, few large jobs": {
        "shape": "map_reduce",
        "framework": "mapreduce",
        "jobs": 40,
        "load": 1.0,
        "tasks": {"kind": "pareto", "tail": 0.6, "low": 2, "high": 100},
        "demand": {"memory-mb": 4096, "vcores": 1},
    },
    "Tez, a dozen stages a job": {
        "shape": "narrow",
        "jobs": 20,
        "load": 1.0,
        "demand": {"memory-mb": 8192, "vcores": 1},
    },
}
"""Workloads by description, for trying a policy: parameters of `Scenario`'s generator."""


def tried_lines(policy: str, settings: Settings) -> Iterator[tuple[str, list[RunSpec]]]:
    """Yield each workload of `TRIED`, and the runs on it of a policy and of `TRIED_AGAINST`: ten draws of each."""
    for title, generator in TRIED.items():
        scenario = Scenario.of({**_TRIED_ON, "workload": {"generator": generator}})
        both = ((policy, settings), (TRIED_AGAINST, settings_of(TRIED_AGAINST, scenario)[1]))
        yield (
            title,
            [
                RunSpec(scenario, name, own, seed, check=False, tasks=False)
                for seed in range(1, TRIED_SEEDS + 1)
                for name, own in both
            ],
        )


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
    """Return the columns needed for figures, of the jobs that are successful in both tables.

    Raises:
        ValueError: the tables are of different jobs.
    """
    if list(jobs["id"]) != list(others["id"]):
        raise ValueError("the runs are of different jobs: compare policies on the same scenario and seed")
    well = np.isfinite(completion_s(jobs)) & np.isfinite(completion_s(others))
    columns = ("arrival_ms", "end_ms", "state", "tasks", "ideal_ms")
    one, two = ({name: np.asarray(table[name])[well] for name in columns} for table in (jobs, others))
    return one, two


def _groups(tables: Mapping[int, Table]) -> Iterator[tuple[str, str, Any]]:
    """Yield each group of jobs: its kind, its name, and a function that selects its jobs in a table."""
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
    jobs = sum(int(np.isfinite(each).sum()) for each in took)
    mean, p50, p99 = (interval_of([statistic_of(each, part) for each in slow]) for part in (None, 50, 99))
    return Slowdown(policy, by, group, jobs, mean, p50, p99, interval_of([statistic_of(each) for each in took]))


def _pair(policy: str, other: str, tables: Mapping[int, Table], others: Mapping[int, Table]) -> Pair:
    pairs = [_well(tables[seed], others[seed]) for seed in sorted(set(tables) & set(others))]
    times = [(completion_s(mine), completion_s(its)) for mine, its in pairs]
    mean, p99 = (
        interval_of_ratio(
            [statistic_of(mine, part) for mine, _ in times], [statistic_of(its, part) for _, its in times]
        )
        for part in (None, 99)
    )
    sooner = interval_of([float((mine < its).mean()) if len(mine) else float("nan") for mine, its in times])
    return Pair(policy, other, sum(len(mine) for mine, _ in times), mean, p99, sooner)


def as_rows(records: Sequence[Slowdown | Pair]) -> list[dict[str, Any]]:
    """Return the results as JSON takes them, a mapping a row."""
    rows = [{name: getattr(each, name) for name in each.__slots__} for each in records]
    return [
        {name: value.as_json() if isinstance(value, Interval) else value for name, value in row.items()} for row in rows
    ]


FIGURES: Final = (
    "jobs",
    "unfinished",
    "failed",
    "ended",
    "completion_mean_s",
    "completion_p50_s",
    "completion_p90_s",
    "completion_p99_s",
    "makespan_s",
    "jain",
    "share_deviation",
    "tasks",
    "tasks_failed",
    "tasks_killed",
    "tasks_lost",
    "containers",
    "decides",
    "proposals",
)


TableFormat = Literal["csv", "parquet"]


def write_tables(
    runs: Sequence[Run],
    folder: str | Path,
    *,
    tasks: bool = False,
    format: TableFormat = "csv",  # noqa: A002 (as pandas calls it)
) -> list[Path]:
    """Write runs.csv, jobs.csv, nodes.csv, queues.csv, slowdowns.csv and pairs.csv; return the files.

    Each row begins with its policy and seed; slowdowns and pairs are over all seeds. Unknown values are empty.

    Args:
        runs: of one scenario.
        folder: is made if it is not there.
        tasks: write the table of tasks too, a row a task and run.
        format: csv, or parquet, for which files end in .parquet, columns keep their types and tags are lists.

    Raises:
        UserError: Parquet is wanted, and pyarrow, an extra, is not installed.
    """
    if format == "parquet":
        check_parquet("format='parquet'")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write = _write if format == "csv" else _write_parquet
    kinds = ("jobs", "nodes", "queues", *(("tasks",) if tasks else ()))
    return [
        write(place / f"runs.{format}", (_figures(run) for run in runs)),
        *(
            write(place / f"{kind}.{format}", (row for run in runs for row in _rows(run, getattr(run, kind))))
            for kind in kinds
        ),
        write(place / f"slowdowns.{format}", map(_flat, slowdowns_of(runs))),
        write(place / f"pairs.{format}", map(_flat, pairs_of(runs))),
    ]


def _figures(run: Run) -> dict[str, Any]:
    used = {f"used {name}": value for name, value in run.summary.utilisation.items()}
    return {"policy": run.policy, "seed": run.seed, **{name: getattr(run.summary, name) for name in FIGURES}, **used}


def _rows(run: Run, table: Records) -> Iterable[dict[str, Any]]:
    names = table.dtype.names or ()
    for row in table.tolist():
        yield {"policy": run.policy, "seed": run.seed, **dict(zip(names, row, strict=True))}


def _flat(record: Slowdown | Pair) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name in record.__slots__:
        value = getattr(record, name)
        if isinstance(value, Interval):
            flat |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            flat[name] = value
    return flat


def _write(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({name: _cell(value) for name, value in row.items()})
    return file


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if isinstance(value, float) and not np.isfinite(value) else value


def check_parquet(what: str) -> None:
    """Check that Parquet can be written; ``what`` is the feature that needs it.

    Raises:
        UserError: pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise UserError(f"{what}: needs pyarrow; {install_extra('parquet')}, or write CSV")


def _write_parquet(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet; a file of no rows has no columns, as with CSV."""
    import pyarrow  # an extra
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([{name: _value(value) for name, value in row.items()} for row in rows])
    pyarrow.parquet.write_table(table, file)
    return file


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not np.isfinite(value) else value

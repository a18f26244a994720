"""The rows of `gains`, and its tables: verdicts on mean completion times, details of a point, what dwarfs orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import numpy as np

from treadle.simulate.figures import SIZES
from treadle.simulate.statistics import interval_of
from treadle.simulate.verdicts import Verdict, lateness, verdict_of
from treadle.words import counted
from treadle_lab.gains.cell import Simulated
from treadle_lab.gains.policies import BASELINE, REFERENCES, STOCK
from treadle_lab.gains.workloads import POINTS
from treadle_lab.render import Table
from treadle_lab.rows import Row, referred

MEAN: Final = "completion, mean"
BOUND: Final = "bound"
LATE: Final = "jobs over 10 % later"
WORST: Final = "worst job, ratio"
DISTANCE: Final = "distance from H-DRF shares"
DETAILS: Final = {
    "completion, P99": "P99",
    "wait, mean": "wait",
    "slowdown, mean": "slowdown",
    "bounded slowdown, mean": "bounded slowdown",
    "bounded slowdown, P99": "bounded, P99",
}
"""Figures of the table of a point, and their titles there."""
FACTORS: Final = {
    "Google 2011: load 0.95": (
        "Google 2011: load 0.95, no AMs",
        "Google 2011: load 0.95, no reuse",
        "Google 2011: load 0.95, AM limit 2 %",
        "Google 2011: load 0.95, AM limit 50 %",
    ),
    "Google 2011: load 1.2": ("Google 2011: load 1.2, AM limit 2 %", "Google 2011: load 1.2, AM limit 50 %"),
    "Facebook 2009: load 0.8": (
        "Facebook 2009: load 0.8, AM limit 10 %",
        "Facebook 2009: load 0.8, slow start 5 %",
        "Facebook 2009: load 0.8, slow start 100 %",
    ),
    "Spark TPC-H: load 0.9, unlimited, idle 60 s": (
        "Spark TPC-H: load 0.9, unlimited, idle 10 s",
        "Spark TPC-H: load 0.9, a quarter, idle 60 s",
        "Spark TPC-H: load 0.9, a quarter, idle 10 s",
    ),
    "Spark TPC-H: load 0.7, unlimited, idle 60 s": (
        "Spark TPC-H: load 0.7, unlimited, idle 10 s",
        "Spark TPC-H: load 0.7, a quarter, idle 60 s",
    ),
}
"""For what dwarfs orders: points with the same jobs under other circumstances, all under `fair`."""


def rows_from(cells: Sequence[Simulated], documents: Sequence[Mapping[str, Any] | None]) -> list[Row]:
    """Return the rows of cells that have a result, in their order; references are the baseline's values."""
    done = [(cell, document) for cell, document in zip(cells, documents, strict=True) if document is not None]
    others = {(cell.x, cell.seed): document for cell, document in done if cell.policy == BASELINE}
    rows = [row for cell, document in done for row in _rows(cell, document, others.get((cell.x, cell.seed)))]
    return referred(rows, BASELINE)


def _rows(cell: Simulated, document: Mapping[str, Any], other: Mapping[str, Any] | None) -> Iterator[Row]:
    def row(figure: str, value: float, unit: str) -> Row:
        return Row(figure, cell.policy, cell.x, cell.seed, value, unit)

    for figure, value in document["figures"].items():
        yield row(figure, value, "s" if figure.startswith(("completion", "wait")) else "1")
    for resource, used in document["use"].items():
        yield row(f"use of {resource}", used, "1")
    if document["share_error"] is not None:
        yield row(DISTANCE, document["share_error"], "1")
    if "bound_s" in document:
        yield Row(MEAN, BOUND, cell.x, cell.seed, document["bound_s"], "s")
    if other is not None and cell.policy != BASELINE:
        took, its = (np.asarray(each["completion_ms"], np.float64) for each in (document, other))
        late, worst = lateness(took, its)
        yield row(LATE, late, "1")
        yield row(WORST, worst, "1")


def title_of(policy: str) -> str:
    """Return what tables call a policy."""
    named = STOCK | REFERENCES | {BOUND: "bound: no scheduler", "graphene": "graphene, true durations"}
    return named.get(policy, policy)


class Results:
    """Rows by x, series and figure."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Sort the rows; points and policies keep the order of `POINTS` and of the rows."""
        self._rows: dict[tuple[str, str, str], dict[int, Row]] = {}
        for row in rows:
            self._rows.setdefault((row.x, row.series, row.figure), {})[row.draw] = row
        seen = {x for x, _, _ in self._rows}
        self.xs = [x for x in POINTS if x in seen]

    def series(self, x: str) -> list[str]:
        """Return the policies of a point: the baseline, those of the shelf, then references and the bound."""
        found = list(dict.fromkeys(series for at, series, _ in self._rows if at == x))
        last = (*REFERENCES, BOUND)
        shelf = sorted(name for name in found if name not in (*last, BASELINE))
        return [name for name in (BASELINE, *shelf, *last) if name in found]

    def values(self, x: str, series: str, figure: str) -> dict[int, float]:
        """Return a figure's values by draw."""
        return {draw: row.value for draw, row in self._rows.get((x, series, figure), {}).items()}

    def mean(self, x: str, series: str, figure: str) -> float:
        """Return a figure's mean over draws, NaN if there is none."""
        return interval_of(list(self.values(x, series, figure).values())).mean

    def verdict(self, x: str, series: str, figure: str, than: tuple[str, str] | None = None) -> Verdict:
        """Return the verdict on a figure against the baseline's, or against that of another point and series."""
        mine = self.values(x, series, figure)
        other = self.values(*(than or (x, BASELINE)), figure)
        draws = sorted(set(mine) & set(other))
        return verdict_of([mine[draw] for draw in draws], [other[draw] for draw in draws])

    def draws(self, x: str) -> int:
        """Return how many draws the baseline has at a point."""
        return len(self.values(x, BASELINE, MEAN))


def workload_tables(results: Results) -> list[Table]:
    """Return for each workload the mean completion time under `fair`, and the change under each other policy."""
    tables = []
    for workload in dict.fromkeys(POINTS[x].workload for x in results.xs):
        xs = [x for x in results.xs if POINTS[x].workload == workload and not POINTS[x].only]
        if not xs:
            continue
        policies = list(dict.fromkeys(name for x in xs for name in results.series(x)))
        heading = ("mean completion", *(f"{POINTS[x].name} ({counted(results.draws(x), 'draw')})" for x in xs))
        rows = [(title_of(name), *(_cell(results, x, name) for x in xs)) for name in policies]
        tables.append(Table(workload, heading, rows))
    return tables


def _cell(results: Results, x: str, name: str) -> str:
    if name == BASELINE:
        return f"{results.mean(x, name, MEAN):,.4g} s"
    found = results.verdict(x, name, MEAN)
    if not isfinite(found.half_width):
        return found.change_text
    needed = f", undecided [{found.needed}]" if found.word == "undecided" else ""
    return f"{found.change_text} ±{found.half_width:.1f}{needed}"


def detail_table(results: Results, x: str) -> Table:
    """Return what else is known at a point: tails, waits, slowdowns, who loses, use, distance from H-DRF shares."""
    shares = bool(results.values(x, BASELINE, DISTANCE))
    use = [figure for at, series, figure in results._rows if (at, series) == (x, BASELINE) and figure.startswith("use")]
    heading = ("change over fair", *DETAILS.values(), "over 10 % later", "worst job", *use, *([DISTANCE] * shares))
    rows = []
    for name in results.series(x):
        if name == BOUND:
            continue
        changes = [_short(results, x, name, figure) for figure in DETAILS]
        late = ["-", "-"]
        if name != BASELINE:
            late = [f"{results.mean(x, name, LATE):.1%}", f"{results.mean(x, name, WORST):.3g} x"]
        used = [f"{results.mean(x, name, figure):.0%}" for figure in use]
        distance = [f"{results.mean(x, name, DISTANCE):.1%}"] * shares
        rows.append((title_of(name), *changes, *late, *used, *distance))
    return Table(x, heading, rows)


def size_table(results: Results, x: str) -> Table:
    """Return the change of mean completion times at a point by class of sizes."""
    figures = [f"{MEAN}, {name}" for _, name in SIZES]
    figures = [figure for figure in figures if results.values(x, BASELINE, figure)]
    names = [name for name in results.series(x) if name != BOUND]
    rows = [(title_of(name), *(_short(results, x, name, figure) for figure in figures)) for name in names]
    return Table(f"{x}, by size of job", ("mean completion", *(f.removeprefix(f"{MEAN}, ") for f in figures)), rows)


def _short(results: Results, x: str, name: str, figure: str) -> str:
    """Return a figure of the baseline, or another policy's change; what is undecided is in brackets."""
    if name == BASELINE:
        return f"{results.mean(x, name, figure):,.3g}"
    found = results.verdict(x, name, figure)
    if not found.draws:
        return "-"
    return f"({found.change:+.0f} %)" if found.word == "undecided" else f"{found.change:+.0f} %"


def factor_table(results: Results) -> Table:
    """Return what dwarfs orders: mean completion under `fair`, and its change under other circumstances."""
    rows = []
    for x, others in FACTORS.items():
        if x not in results.xs:
            continue
        rows.append((x, f"{results.mean(x, BASELINE, MEAN):,.4g} s", ""))
        for other in others:
            if other in results.xs:
                found = results.verdict(other, BASELINE, MEAN, (x, BASELINE))
                rows.append((other, f"{results.mean(other, BASELINE, MEAN):,.4g} s", str(found)))
    return Table("Under fair alone", ("workload", "mean completion", "change"), rows)

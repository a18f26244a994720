"""The comparison: what runs, its figures, and their tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isfinite, isnan
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from rich.console import Console

from treadle import __version__
from treadle.cli._console import OutputPaths, counted_progress, note
from treadle.cli._options import check_writable, writing
from treadle.config.part_files import missing
from treadle.config.reader import read_settings
from treadle.errors import UserError, counted, percent
from treadle.policy.catalogue import register_parts
from treadle.shipped import about
from treadle.simulate.batch import SIZES, size_of
from treadle.simulate.comparison import FEW, Verdict, interval_of, lateness, verdict_of
from treadle_lab.gains.cell import BASELINE, READY_MADE, REFERENCES, STOCK, Plan, Simulated, drawn, file_of
from treadle_lab.gains.workloads import FIRST_SEED, HOURS, POINTS
from treadle_lab.harness.runs import RunSettings, run_all
from treadle_lab.plots import intervals, lines
from treadle_lab.rows import Row, Table, as_document, json_text, markdown, pivot, referred, rows_of, show

MEAN: Final = "completion, mean"
BOUND: Final = "bound"
LATE: Final = "jobs over 10 % later"
WORST: Final = "worst job, ratio"
DISTANCE: Final = "distance from H-DRF shares"
DETAILS: Final = (
    "completion, P99",
    "wait, mean",
    "slowdown, mean",
    "bounded slowdown, mean",
    "bounded slowdown, P99",
    LATE,
    WORST,
    DISTANCE,
)
"""Figures of the table of a point."""
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


def rows_from(cells: Sequence[Simulated], documents: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of cells' results, in their order; references are the baseline's values."""
    done = list(zip(cells, documents, strict=True))
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
    if document["share_deviation"] is not None:
        yield row(DISTANCE, document["share_deviation"], "1")
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
        """Return a figure's mean over draws, NaN without any."""
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
    verdict = results.verdict(x, name, MEAN)
    if not isfinite(verdict.half_width):
        return verdict.change_text
    needed = f", undecided [{verdict.needed}]" if verdict.word == "undecided" else ""
    return f"{verdict.change_text} ±{verdict.half_width:.1f}{needed}"


def detail_tables(rows: Sequence[Row], x: str) -> list[Table]:
    """Return what else is known at a point: tails, waits, slowdowns, who loses, use, distance; means by size of job."""
    own = [replace(row, series=title_of(row.series), reference=None) for row in rows if row.x == x]
    shown = [row for row in own if row.figure in DETAILS or row.figure.startswith("use of ")]
    by_size = [row for row in own if row.figure.startswith(f"{MEAN}, ")]
    return [pivot(x, shown, ("",)), pivot(f"{x}, by size of job", by_size, ("",))]


def factor_table(results: Results) -> Table:
    """Return what dwarfs orders: mean completion under `fair`, and its change under other circumstances."""
    rows = []
    for x, others in FACTORS.items():
        if x not in results.xs:
            continue
        rows.append((x, f"{results.mean(x, BASELINE, MEAN):,.4g} s", ""))
        for other in others:
            if other in results.xs:
                verdict = results.verdict(other, BASELINE, MEAN, (x, BASELINE))
                rows.append((other, f"{results.mean(other, BASELINE, MEAN):,.4g} s", str(verdict)))
    return Table("Under fair alone", ("workload", "mean completion", "change"), rows)


BUILDING_BLOCK: Final = "building block"
DETAILED: Final = (
    "Google 2011: load 0.95",
    "Google 2011: load 1.2",
    "Spark TPC-H: load 0.9, unlimited, idle 60 s",
    "Tez TPC-H: load 0.9",
    "Facebook 2009: load 0.8",
    "Two departments: network binds",
    "GPU tenant: maximum",
)


def shown_by(results: Results, policy: str, own: Mapping[str, str]) -> Verdict | None:
    """Return the verdict that a policy's file names; None if it names none, or the results lack it."""
    x, _, figure = own["evidence"].partition("; ")
    verdict = results.verdict(x, policy, figure)
    return verdict if verdict.draws else None


def short_table(results: Results) -> Table:
    """Return the short answer, a line a point: the best ready-made policy of those that are better, or none."""
    rows = []
    for x in results.xs:
        if POINTS[x].only:
            continue
        shelf = [name for name in results.series(x) if name in READY_MADE and name != BASELINE]
        verdicts = {name: results.verdict(x, name, MEAN) for name in shelf}
        better, worse, open_ = (
            sorted((name for name in shelf if verdicts[name].word == word), key=lambda name: verdicts[name].change)
            for word in ("less", "more", "undecided")
        )
        best = f"`{better[0]}`: {verdicts[better[0]]}" if better else "undecided" if open_ else "none: use `fair`"
        others = (", ".join(names) or "-" for names in (better[1:], open_, worse))
        left = results.verdict(x, BOUND, MEAN).change
        rows.append((x, str(results.draws(x)), best, *others, "-" if isnan(left) else f"{left:+.0f} %"))
    heading = ("workload", "draws", "best ready-made policy", "also better", "undecided", "worse", "bound")
    return Table("", heading, rows)


def policy_table(results: Results) -> Table:
    """Return what each ready-made policy is for, and the verdict that shows it."""
    rows = []
    for name in READY_MADE:
        own = about(file_of(name))
        found = shown_by(results, name, own)
        evidence = own["evidence"] if found is None else f"{own['evidence']}: {found}"
        rows.append((f"`{name}`", own["use when"], own["requires"], evidence))
    return Table("", ("policy", "use when", "requires", "evidence"), rows)


ON_PAGE: Final = {"short": short_table, "factors": factor_table, "policies": policy_table}
"""The tables of docs/gains.md, by the names in its marks."""
_MARKED: Final = re.compile(r"<!-- gains: (\w+) -->\n.*?<!-- to here -->", re.DOTALL)


def with_tables(page: str, results: Results) -> str:
    """Return a page with its tables as the results have them, between ``<!-- gains: NAME -->`` and the end's mark."""
    return _MARKED.sub(
        lambda found: f"<!-- gains: {found[1]} -->\n\n{markdown(ON_PAGE[found[1]](results))}\n<!-- to here -->", page
    )


def all_tables(rows: Sequence[Row]) -> list[Table]:
    """Return all tables that are shown."""
    results = Results(rows)
    details = (table for x in DETAILED if x in results.xs for table in detail_tables(rows, x))
    return [*workload_tables(results), *details, factor_table(results)]


def compare(
    plan: Plan, runs: RunSettings, kept: Path | None, policy: str | None, page: Path | None, places: OutputPaths
) -> None:
    """Get the rows; show the tables, or the verdicts on one policy; write outputs.

    Args:
        plan: the cells to run
        runs: where results are kept, and how many run at a time
        kept: a file with rows instead
        policy: of which verdicts are wanted; None: all are compared
        page: whose tables are written again
        places: of outputs

    Raises:
        UserError: a cell failed, a file cannot be read or written.
    """
    places.check()
    if page is not None:
        check_writable("--page", page)
    document = _simulated(plan, runs) if kept is None else _read(kept)
    rows = rows_of(document)
    results = Results(rows)
    tables = all_tables(rows) if policy is None else verdict_tables(results, policy)

    def show_all(console: Console) -> None:
        for table in tables:
            if table.rows:
                show(table, console)

    places.publish(document, show_all, json_text)
    if any(results.draws(x) < FEW for x in results.xs):
        note(f"Some points have fewer than {FEW} draws: their intervals say little.")
    if page is not None:
        with writing("--page", page, "file"):
            page.write_text(with_tables(page.read_text("utf-8"), results), "utf-8")
    places.draw(partial(_plots, rows))


def _simulated(plan: Plan, runs: RunSettings) -> dict[str, Any]:
    cells = plan.cells()
    with counted_progress("cells") as bar:
        task = bar.add_task("simulating", total=len(cells))
        documents = run_all(cells, runs, lambda done, _: bar.update(task, completed=done))
    builds = len({document["code"] for document in documents})
    if builds > 1:
        what = "if a change between them altered results, raise MODEL in treadle_lab/gains/cell.py and run again"
        note(f"cells are of {builds} builds of the engine; {what}", "yellow")
    head = {
        "command": plan.command,
        "version": __version__,
        "cpu_hours": round(sum(document["cpu_s"] for document in documents) / 3600, 2),
        "cells": len(cells),
        "hours": HOURS,
        "builds": builds,
    }
    return head | as_document(rows_from(cells, documents), BASELINE)


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text("utf-8"))
        rows_of(document)
    except OSError as error:
        raise UserError(f"--from: {file}: {error.strerror}; name a file that --out wrote") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--from: {file}: not rows of --out ({error}); name a file that --out wrote") from None
    return dict(document)


def _plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw each workload: mean completion by point, and the change over the baseline with its interval."""
    files = []
    mean = [row for row in rows if row.figure == MEAN and not POINTS[row.x].only]
    for workload in dict.fromkeys(POINTS[row.x].workload for row in mean):
        own = [row for row in mean if POINTS[row.x].workload == workload]
        name = workload.lower().replace(" ", "-")
        files += [folder / f"{name}.svg", folder / f"{name}-change.svg"]
        lines([row for row in own if row.series not in REFERENCES], files[-2])
        intervals([row for row in own if row.series not in (BASELINE, BOUND)], files[-1])
    return files


BOUNDED: Final = "bounded slowdown, mean"
WAIT: Final = "wait, mean"
BEHIND_MAX: Final = 2.0
"""Per cent that it may be behind the best stock order, and on Spark behind `fair`, by the upper end of the interval."""
GAP_MIN: Final = 5.0
"""Per cent between the best stock order and the better reference that count as a gap."""
CLOSED_MIN: Final = 2 / 3
REFERENCE_MAX: Final = 10.0
"""Per cent that it may be behind the better reference where there is a gap."""
CLASS_MAX: Final = {MEAN: 5.0, BOUNDED: 10.0}
"""Per cent by which a class of sizes may be worse than under `fair`."""
CLASS_JOBS: Final = 100
"""Jobs of a class in a draw; of smaller ones the figures are reported only."""

Word = Literal["passed", "failed", "undecided", "reported"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A result at a point."""

    asked: str
    """One of `QUESTIONS`."""
    x: str
    what: str
    value: str
    word: Word


QUESTIONS: Final = {
    "stock": f"at most {BEHIND_MAX:.0f} % behind the best stock order",
    "gap": "two thirds of the gap in waits to the better reference are closed",
    "sizes": "no size class ends later or is slowed more than under fair",
    "Spark": f"at most {BEHIND_MAX:.0f} % behind fair on Spark",
    "starves": "starves no job: tests/engine/test_fair_finish.py says so of fair-finish",
    "needs": "needs no profile, plug-in or hints",
}


def findings(results: Results, policy: str, needs: list[str]) -> list[Finding]:
    """Return all results of a policy, question by question; ``needs`` are its requirements."""
    xs = [x for x in results.xs if not POINTS[x].only and results.values(x, policy, MEAN)]
    found = [Finding("needs", "", policy, "; ".join(needs) or "nothing", _word(not needs))]
    for x in xs:
        found += _behind(results, policy, x, "", "stock")
        found += _gap(results, policy, x)
        found += _sizes(results, policy, x)
        if POINTS[x].workload.startswith("Spark"):
            found += _behind(results, policy, x, BASELINE, "Spark")
    return [each for question in QUESTIONS for each in found if each.asked == question]


def verdict_tables(results: Results, policy: str) -> list[Table]:
    """Return what did not pass, which jobs lose, and the verdicts.

    Raises:
        UserError: there is no such policy, or no row of it.
    """
    needs = needs_of(policy)
    if not any(results.values(x, policy, MEAN) for x in results.xs):
        raise UserError(f"--policy: there are no rows of {policy}; run its cells, without --from")
    found = findings(results, policy, needs)
    return [details(found), losers(results, policy), summary(found)]


def summary(all_findings: list[Finding]) -> Table:
    """Return how each question is answered: passed if it is at all points."""
    rows = []
    for question, text in QUESTIONS.items():
        words = Counter(each.word for each in all_findings if each.asked == question)
        word = next((word for word in ("failed", "undecided", "passed") if words[word]), "reported")
        counts = ", ".join(
            f"{words[word]} {word}" for word in ("passed", "undecided", "failed", "reported") if words[word]
        )
        rows.append((text, word, counts))
    return Table("Verdict", ("bullet", "verdict", "points and figures"), rows)


def details(all_findings: list[Finding]) -> Table:
    """Return all that did not pass."""
    rows = [(each.asked, each.x, each.what, each.value, each.word) for each in all_findings if each.word != "passed"]
    return Table("Not passed, or reported only", ("bullet", "point", "figure", "value", "verdict"), rows)


def losers(results: Results, policy: str) -> Table:
    """Return how many jobs lose, and the worst."""
    rows = [
        (x, percent(results.mean(x, policy, LATE), ".1f"), f"{results.mean(x, policy, WORST):.3g} x")
        for x in results.xs
        if results.values(x, policy, LATE)
    ]
    return Table("Jobs that lose", ("point", "over 10 % later than under fair", "worst job"), rows)


def _word(passed: bool) -> Word:
    return "passed" if passed else "failed"


def _bounded(verdict: Verdict, most: float) -> Word:
    """Return whether the whole interval of a change is at most so many per cent."""
    if verdict.high <= most:
        return "passed"
    return "failed" if verdict.low > most else "undecided"


def _best(results: Results, x: str, names: tuple[str, ...], figure: str) -> str:
    there = [name for name in names if results.values(x, name, figure)]
    return min(there, key=lambda name: results.mean(x, name, figure))


def _behind(results: Results, policy: str, x: str, other: str, asked: str) -> Iterator[Finding]:
    for figure in (MEAN, BOUNDED):
        name = other or _best(results, x, tuple(STOCK), figure)
        verdict = results.verdict(x, policy, figure, (x, name))
        yield Finding(asked, x, f"{figure}, against {name}", str(verdict), _bounded(verdict, BEHIND_MAX))


def _gap(results: Results, policy: str, x: str) -> Iterator[Finding]:
    """Yield what part of the gap is closed, if there is one, and how far the policy is behind the reference."""
    stock, reference = _best(results, x, tuple(STOCK), MEAN), _best(results, x, tuple(REFERENCES), MEAN)
    gap = results.verdict(x, reference, MEAN, (x, stock))
    if gap.change > -GAP_MIN or gap.word != "less":
        return
    its, best, mine = (results.mean(x, name, WAIT) for name in (stock, reference, policy))
    closed = (its - mine) / (its - best)
    yield Finding("gap", x, f"wait closed from {stock} to {reference}", percent(closed), _word(closed >= CLOSED_MIN))
    behind = results.verdict(x, policy, MEAN, (x, reference))
    yield Finding("gap", x, f"{MEAN}, against {reference}", str(behind), _word(behind.change <= REFERENCE_MAX))


def _sizes(results: Results, policy: str, x: str) -> Iterator[Finding]:
    for _, name in SIZES:
        for figure, most in CLASS_MAX.items():
            verdict = results.verdict(x, policy, f"{figure}, {name}")
            if verdict.draws:
                word = _word(verdict.change <= most) if _class_jobs(x)[name] >= CLASS_JOBS else "reported"
                if word != "reported" or verdict.change > most:
                    yield Finding("sizes", x, f"{figure}, {name}", str(verdict), word)


@cache
def _class_jobs(x: str) -> Counter[str]:
    """Return how many jobs of each class a draw has, by the first one."""
    return Counter(size_of(sum(stage.tasks for stage in job.dag.stages)) for job in drawn(x, FIRST_SEED, HOURS)[1].jobs)


def needs_of(policy: str) -> list[str]:
    """Return what a policy needs besides itself."""
    register_parts()
    settings = read_settings(file_of(policy))
    parts = [getattr(settings.policy, part) for part in ("gate", "order", "estimate")]
    labels = [part.label for part in parts if "TaskEstimates" in part.kind.traits.estimates]
    return [*missing(settings), *(f"{label} uses hints" for label in labels)]

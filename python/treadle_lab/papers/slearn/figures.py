"""SLearn's results over seeds: rows and their tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from treadle_lab.papers.slearn.experiment import Outcome
from treadle_lab.papers.slearn.paper import LOAD, OF_JOBS, THRESHOLDS_MS, Figures
from treadle_lab.papers.slearn.schemes import TITLES
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row, figure_of

ESTIMATORS = ("pilots", "combined", "3sigma", "point", "median", "drawn", "3sigma-paper", "point-paper")
OVER_SLEARN: Final = "over SLearn's, all jobs"
LAYOUTS: Final = {
    "slearn-times": "Mean completion times of jobs, and over SLearn's",
    "slearn-errors": "Estimates of wide jobs",
    "slearn-bins": "Bins of jobs by width and size",
}


def results_of(outcomes: Sequence[Outcome], paper: Figures = OF_JOBS, load: float = LOAD) -> Results:
    """Return the results of one outcome per seed at a load, with the paper's figures."""
    rows: dict[str, list[Row]] = {name: [] for name in LAYOUTS}
    for outcome in outcomes:
        for name, row in _rows(f"{load:g}", outcome, paper):
            rows[name].append(row)
    rows["slearn-times"] += _spread(rows["slearn-times"])
    wall_s = sum(sum(outcome.wall_s.values()) for outcome in outcomes)
    facts = {"seeds": [each.trace.seed for each in outcomes], "jobs": len(outcomes[0].trace.widths), "wall_s": wall_s}
    return Results({name: Layout(title) for name, title in LAYOUTS.items()}, rows, facts)


def _rows(x: str, outcome: Outcome, paper: Figures) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a draw, each with the name of its table."""
    schemes = outcome.completion_ms

    def row(table: str, figure: str, series: str, value: float, unit: str, *more: float | None) -> tuple[str, Row]:
        return table, Row(figure, TITLES.get(series, series), x, outcome.trace.seed, value, unit, *more)

    for name in schemes:
        yield row("slearn-times", "mean (s)", name, outcome.mean_s(name), "s")
        if name == "slearn":
            continue
        for figure, measure, papers in (
            (OVER_SLEARN, outcome.speedup_mean, paper.speedup_mean),
            ("wide jobs alone", outcome.speedup_wide, {}),
            ("median over jobs", outcome.speedup_p50, paper.speedup_p50),
        ):
            yield row("slearn-times", figure, name, measure(name), "1", papers.get(name))
    for name in ESTIMATORS:
        p50, p90 = np.percentile(outcome.errors(name), (50, 90)).tolist()
        right = outcome.right_queue(name)
        for figure, value, papers in (
            ("error P50 (%)", p50, paper.error_p50),
            ("error P90 (%)", p90, paper.error_p90),
            ("in the right queue (%)", right, paper.right_queue),
        ):
            yield row("slearn-errors", figure, name, value, "%", papers.get(name))
    yield from (row("slearn-bins", *each) for each in bins(outcome)) if AGAINST in schemes else ()


def _spread(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield how far single draws lie apart; the deviation is that of draws, not of their mean."""
    for series in dict.fromkeys(row.series for row in rows if row.figure == OVER_SLEARN):
        own = [row for row in rows if (row.series, row.figure) == (series, OVER_SLEARN)]
        values = [row.value for row in own]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        for figure, value in (("least", min(values)), ("most", max(values)), ("deviation", deviation)):
            yield Row(f"{figure} of draws", series, own[0].x, 0, value, "1")


AGAINST: Final = "3sigma-paper"
"""The baseline of SLearn: the paper has its own 3Sigma."""
Found = tuple[str, str, float, str, None, float | None]
"""Figure, series, value, unit, reference, divisor."""


def bins(outcome: Outcome) -> Iterator[Found]:
    """Yield by bin its percent of jobs and of task time, the mean completion time over SLearn's, and who is faster.

    Small jobs have less than 1,000 s of task time, thin ones less than three tasks.
    """
    size, wide = np.asarray(outcome.trace.true_ms * outcome.trace.widths), outcome.trace.wide
    ours, theirs = (outcome.completion_ms[name] for name in ("slearn", AGAINST))
    for is_large, is_wide in product((False, True), repeat=2):
        name = f"{'large' if is_large else 'small'}, {'wide' if is_wide else 'thin'}"
        own = ((size >= THRESHOLDS_MS[0]) == is_large) & (wide == is_wide)
        if own.any():
            yield "jobs (%)", name, 100.0 * float(own.mean()), "%", None, None
            yield "task time (%)", name, 100.0 * float(size[own].sum() / size.sum()), "%", None, None
            over = float(ours[own].sum())
            yield "3Sigma by the letter over SLearn", name, float(theirs[own].sum()), "1", None, over
            faster = 100.0 * float((ours < theirs)[own].sum())
            yield "jobs that SLearn makes faster (%)", name, faster, "%", None, float(own.sum())


def plot_slearn(outcomes: Sequence[Outcome], results: Results, folder: Path) -> list[Path]:
    """Draw the plots and return their files."""
    others = [name for name in outcomes[0].completion_ms if TITLES.get(name) and name != "slearn"]
    by_job = {
        name: share_up_to(
            np.concatenate([each.completion_ms[name] / each.completion_ms["slearn"] for each in outcomes])
        )
        for name in others
    }
    errors = {name: share_up_to(np.concatenate([each.errors(name) for each in outcomes])) for name in ESTIMATORS}
    over, x = "completion time over that with SLearn", (0.1, 100)
    drawn = {
        "speedup": _beside(row for row in results.rows["slearn-times"] if row.figure == OVER_SLEARN),
        "speedup-by-job": Panel(by_job, over, "share of jobs", scales=("log", "linear"), x_range=x),
        "error": Panel(errors, "error of a wide job's mean task duration (%)", "share of wide jobs", x_range=(0, 200)),
    }
    return [panels([panel], folder / f"slearn-{name}.png") for name, panel in drawn.items() if panel.lines]


def _beside(chosen: Iterable[Row]) -> Panel:
    """Return figures by series with their intervals over seeds, and the paper's."""
    rows = list(chosen)
    names = list(dict.fromkeys(row.series for row in rows))
    if not names:
        return Panel({}, "", "")
    found = [figure_of([row for row in rows if row.series == name]) for name in names]
    here = Line(names, [each.mean for each in found], [each.low for each in found], [each.high for each in found])
    known = {row.series: row.reference for row in rows if row.reference is not None}
    paper = {"paper": Line(list(known), list(known.values()))} if known else {}
    return Panel({"here": here} | paper, "", rows[0].figure, level=1.0)

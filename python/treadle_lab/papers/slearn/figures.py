"""SLearn's results over seeds: rows and their tables, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle_lab.papers.slearn.experiment import Outcome
from treadle_lab.papers.slearn.paper import OF_JOBS, THRESHOLDS_MS, Figures, levels
from treadle_lab.papers.slearn.schemes import TITLES
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row, figure_of

ESTIMATORS = ("pilots", "combined", "3sigma", "point", "median", "drawn", "3sigma-paper", "point-paper")
OVER_SLEARN: Final = "over SLearn's, all jobs"
LAYOUTS: Final = {
    "slearn-times": "Mean completion times of jobs, and over SLearn's",
    "slearn-errors": "Estimates of wide jobs",
    "slearn-gap": "What Oracle has over SLearn, and what ours closes of it",
    "slearn-bins": "Bins of jobs by width and size",
    "slearn-waiting": "Normalised waiting times by segment",
    "slearn-variation": "Coefficients of variation of task durations",
    "slearn-settings": "SLearn with other settings: mean speed-up over 3Sigma",
    "slearn-jobs": "Jobs of a draw: wide ones, and thin ones of over 1,000 s of task time",
}
THIN_LARGE: Final = 1.9
"""The paper's percent of jobs that are thin and of over 1,000 s."""
BY_LOAD: Final = "slearn-loads"


def results_of(by_load: Mapping[float, Sequence[Outcome]], paper: Figures = OF_JOBS) -> Results:
    """Return the results of one outcome per seed at each load, with the paper's figures."""
    rows: dict[str, list[Row]] = {name: [] for name in LAYOUTS}
    for load, outcomes in by_load.items():
        for outcome in outcomes:
            for name, row in _rows(f"{load:g}", outcome, paper):
                rows[name].append(row)
        rows["slearn-times"] += _spread([row for row in rows["slearn-times"] if row.x == f"{load:g}"])
    names = ("mean load", "") if len(by_load) > 1 else ("",)
    layouts = {name: Layout(title, names) for name, title in LAYOUTS.items()}
    if len(by_load) > 1:
        layouts[BY_LOAD] = Layout("Mean completion times over SLearn's by load", across="x")
        rows[BY_LOAD] = [replace(row, reference=None) for row in rows["slearn-times"] if row.figure == OVER_SLEARN]
    first = next(iter(by_load.values()))
    wall_s = sum(sum(outcome.wall_s.values()) for outcomes in by_load.values() for outcome in outcomes)
    facts = {"seeds": [each.trace.seed for each in first], "jobs": len(first[0].trace.widths), "wall_s": wall_s}
    return Results(layouts, rows, facts)


def _rows(x: str, outcome: Outcome, paper: Figures) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a draw, each with the name of its table."""
    schemes = outcome.completion_ms
    variants = [name for name in schemes if name.startswith(("thin ", "ratio "))]

    def row(table: str, figure: str, series: str, value: float, unit: str, *more: float | None) -> tuple[str, Row]:
        return table, Row(figure, TITLES.get(series, series), x, outcome.trace.seed, value, unit, *more)

    for name in (name for name in schemes if name not in variants):
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
    if "3sigma" in schemes:
        for name in variants:
            over = outcome.speedup_mean("3sigma", name)
            yield row("slearn-settings", "speed-up over 3Sigma", name, over, "1", paper.over_3sigma.get(name))
    if "oracle" in schemes:
        shorter = 100.0 * (1.0 - outcome.speedup_mean("oracle"))
        yield row("slearn-gap", "Oracle's mean shorter than SLearn's (%)", "", shorter, "%")
        if "combined" in schemes:
            gain, most = outcome.gain_s("combined"), outcome.gain_s("oracle")
            yield row("slearn-gap", "part of it that ours closes", "", gain, "1", None, most)
    thin_large = ~outcome.trace.wide & (levels(_size(outcome)) > 0)
    yield row("slearn-jobs", "wide", "", int(outcome.trace.wide.sum()), "1")
    yield row("slearn-jobs", "thin and large (%)", "", 100.0 * float(thin_large.mean()), "%", THIN_LARGE)
    yield row("slearn-jobs", "of all task time (%)", "", _part(_size(outcome), thin_large), "%")
    yield from (row("slearn-bins", *each) for each in bins(outcome)) if AGAINST in schemes else ()
    yield from (row("slearn-waiting", *each) for each in waiting(outcome))
    yield from (row("slearn-variation", *each) for each in variation(outcome))


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
SEGMENTS: Final = {"below 0.04": 0.04, "0.04 to 1.90": 1.90, "above 1.90": float("inf")}
"""The paper's three segments of normalised waiting times, and where each ends."""
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
Found = tuple[str, str, float, str, None, float | None]
"""Figure, series, value, unit, reference, divisor."""


def _size(outcome: Outcome) -> F64:
    return np.asarray(outcome.trace.true_ms * outcome.trace.widths)


def _part(values: F64, chosen: Mask) -> float:
    """Return how many percent of the sum those that are chosen have."""
    return 100.0 * float(values[chosen].sum() / values.sum())


def bins(outcome: Outcome) -> Iterator[Found]:
    """Yield by bin its percent of jobs and of task time, the mean completion time over SLearn's, and who is faster.

    Small jobs have less than 1,000 s of task time, thin ones less than three tasks.
    """
    size, wide = _size(outcome), outcome.trace.wide
    ours, theirs = (outcome.completion_ms[name] for name in ("slearn", AGAINST))
    for is_large, is_wide in product((False, True), repeat=2):
        name = f"{'large' if is_large else 'small'}, {'wide' if is_wide else 'thin'}"
        own = ((size >= THRESHOLDS_MS[0]) == is_large) & (wide == is_wide)
        if own.any():
            yield "jobs (%)", name, 100.0 * float(own.mean()), "%", None, None
            yield "task time (%)", name, _part(size, own), "%", None, None
            over = float(ours[own].sum())
            yield "3Sigma by the letter over SLearn", name, float(theirs[own].sum()), "1", None, over
            faster = 100.0 * float((ours < theirs)[own].sum())
            yield "jobs that SLearn makes faster (%)", name, faster, "%", None, float(own.sum())


def waiting(outcome: Outcome) -> Iterator[Found]:
    """Yield by segment of normalised waiting time how many percent of jobs are in it, and of whom the fewer wait.

    A job's normalised waiting time is the mean over its tasks from the job's arrival to their start, over the mean
    duration of its tasks. Nothing where waiting times were not taken: the engine's runs have none.
    """
    if not {"slearn", AGAINST} <= outcome.wait_ms.keys():
        return
    ours, theirs = (outcome.wait_ms[name] / outcome.trace.true_ms for name in ("slearn", AGAINST))
    edges = list(SEGMENTS.values())[:-1]
    segment, other = np.searchsorted(edges, ours), np.searchsorted(edges, theirs)
    for number, name in enumerate(SEGMENTS):
        both = (segment == number) & (other == number)
        for figure, chosen in (
            ("with SLearn (%)", segment == number),
            ("with 3Sigma by the letter (%)", other == number),
            ("with both (%)", both),
        ):
            yield figure, name, 100.0 * float(chosen.mean()), "%", None, None
        if both.any():
            lower = 100.0 * float((ours < theirs)[both].mean())
            yield "of these lower with SLearn (%)", name, lower, "%", None, None


def variation(outcome: Outcome) -> Iterator[Found]:
    """Yield percentiles of the coefficients of variation of task durations: over time, and over space at 3 %.

    Over time: of the mean task durations of all jobs of the first part of the trace that have a feature's value in
    common with the job, the least of its features. Over space: the standard deviation of a job's tasks over their mean
    and the root of 3 % of their number; jobs of one task have none.
    """
    for name, of_jobs in (("time", outcome.trace.variation_time), ("space", outcome.trace.variation_space)):
        known = of_jobs[np.isfinite(of_jobs)]
        for part in (50, 90) if len(known) else ():
            yield f"P{part}", name, float(np.percentile(known, part)), "1", None, None


def plot_slearn(by_load: Mapping[float, Sequence[Outcome]], results: Results, folder: Path) -> list[Path]:
    """Draw the plots of each load and return their files; of several loads each has a folder."""
    several = len(by_load) > 1
    return [
        file
        for load, outcomes in by_load.items()
        for file in _plot(f"{load:g}", outcomes, results, folder / f"load-{load:g}" if several else folder)
    ]


def _plot(load: str, outcomes: Sequence[Outcome], results: Results, folder: Path) -> list[Path]:
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
        "speedup": _beside(row for row in results.rows["slearn-times"] if (row.x, row.figure) == (load, OVER_SLEARN)),
        "speedup-by-job": Panel(by_job, over, "share of jobs", scales=("log", "linear"), x_range=x),
        "error": Panel(errors, "error of a wide job's mean task duration (%)", "share of wide jobs", x_range=(0, 200)),
        "sensitivity": _beside(row for row in results.rows["slearn-settings"] if row.x == load),
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

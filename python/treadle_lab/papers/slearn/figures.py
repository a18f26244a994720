"""SLearn's results over seeds: figures with their intervals, and plots like the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64
from treadle.simulate.comparison import Interval, interval_of, interval_of_ratio
from treadle_lab.papers.slearn.experiment import Outcome
from treadle_lab.papers.slearn.paper import OF_JOBS, THRESHOLDS_MS, Figures, levels
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import plain

ESTIMATORS = ("pilots", "combined", "3sigma", "point", "median", "drawn", "3sigma-paper", "point-paper")


class Spread(NamedTuple):
    """How far single draws lie apart."""

    deviation: float
    """Of draws, not of their mean; 0 for one."""
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Report:
    """The figures, each with its interval over seeds."""

    seeds: tuple[int, ...]
    jobs: int
    wide_jobs: Interval
    mean_s: dict[str, Interval]
    """By scheme, the mean completion time."""
    speedup_mean: dict[str, Interval]
    """By scheme, its mean completion time over SLearn's."""
    speedup_wide: dict[str, Interval]
    """The same of wide jobs alone."""
    speedup_p50: dict[str, Interval]
    """By scheme, the median over jobs of completion time over that with SLearn."""
    gap_percent: Interval | None
    """How much shorter Oracle's mean completion time is than SLearn's, in percent of it; None without Oracle."""
    gap_closed: Interval | None
    """What part of the gap in mean completion time between SLearn and Oracle ours closes: mean gain over mean gap."""
    error_p50: dict[str, Interval]
    error_p90: dict[str, Interval]
    right_queue: dict[str, Interval]
    over_3sigma: dict[str, Interval]
    """SLearn's speed-up over 3Sigma with other thin limits and fixed ratios."""
    spread: dict[str, Spread]
    """By scheme, how far draws differ in its mean completion time over SLearn's."""
    thin_large_jobs: Interval
    """Percent of jobs that are thin and of over 1,000 s of task time, which the paper has as 1.9."""
    thin_large_work: Interval
    """Percent of all task time that is theirs."""
    bins: Table
    """By bin of jobs, its share, and the mean completion time under 3Sigma by the paper's letter over SLearn's."""
    waiting: Table
    """By segment of normalised waiting time; empty of the engine's runs."""
    variation: Table
    """Coefficients of variation over time and space."""
    wall_s: float
    paper: Figures = OF_JOBS

    def as_json(self) -> dict[str, Any]:
        """Return all of it as JSON takes it: the means by name, the intervals and the paper's figures beside them."""
        tables = {
            name: getattr(self, name)
            for name in (
                "speedup_mean",
                "speedup_wide",
                "speedup_p50",
                "error_p50",
                "error_p90",
                "right_queue",
                "over_3sigma",
                "mean_s",
            )
        }
        found: dict[str, Any] = {
            name: {key: each.mean for key, each in table.items()} for name, table in tables.items()
        }
        gaps = {"gap_percent": self.gap_percent, "gap_closed": self.gap_closed}
        known = {name: each for name, each in gaps.items() if each is not None}
        found |= {name: each.mean for name, each in known.items()}
        single = {name: getattr(self, name) for name in ("wide_jobs", "thin_large_jobs", "thin_large_work")}
        found["intervals"] = plain(tables | known | single)
        found |= {name: plain(getattr(self, name)) for name in ("bins", "waiting", "variation")}
        found["spread"] = {name: each._asdict() for name, each in self.spread.items()}
        found["paper"] = {name: dict(figures) for name, figures in self.paper._asdict().items()}
        return found | {"seeds": list(self.seeds), "jobs": self.jobs, "wall_s": self.wall_s}


def report_of(outcomes: Sequence[Outcome], paper: Figures = OF_JOBS) -> Report:
    """Return the results of one outcome per seed, and the paper's figures of the same."""
    schemes = [name for name in outcomes[0].completion_ms if not name.startswith(("thin ", "ratio "))]
    others = [name for name in schemes if name != "slearn"]
    variants = [name for name in outcomes[0].completion_ms if name not in schemes]
    return Report(
        seeds=tuple(outcome.trace.seed for outcome in outcomes),
        jobs=len(outcomes[0].trace.widths),
        wide_jobs=interval_of([int(outcome.trace.wide.sum()) for outcome in outcomes]),
        mean_s={name: interval_of([outcome.mean_s(name) for outcome in outcomes]) for name in schemes},
        speedup_mean={name: interval_of([outcome.speedup_mean(name) for outcome in outcomes]) for name in others},
        speedup_wide={name: interval_of([outcome.speedup_wide(name) for outcome in outcomes]) for name in others},
        speedup_p50={name: interval_of([outcome.speedup_p50(name) for outcome in outcomes]) for name in others},
        gap_percent=_gap(outcomes) if "oracle" in schemes else None,
        gap_closed=_gap_closed(outcomes) if {"oracle", "combined"} <= set(schemes) else None,
        error_p50=_errors(outcomes, 50),
        error_p90=_errors(outcomes, 90),
        right_queue={name: interval_of([outcome.right_queue(name) for outcome in outcomes]) for name in ESTIMATORS},
        over_3sigma={
            name: interval_of([outcome.speedup_mean("3sigma", name) for outcome in outcomes])
            for name in variants
            if "3sigma" in schemes
        },
        spread={name: _spread([outcome.speedup_mean(name) for outcome in outcomes]) for name in others},
        thin_large_jobs=interval_of([_thin_large(outcome)[0] for outcome in outcomes]),
        thin_large_work=interval_of([_thin_large(outcome)[1] for outcome in outcomes]),
        bins=bins(outcomes) if AGAINST in schemes else {},
        waiting=waiting(outcomes),
        variation=variation(outcomes),
        wall_s=sum(sum(outcome.wall_s.values()) for outcome in outcomes),
        paper=paper,
    )


def _gap(outcomes: Sequence[Outcome]) -> Interval:
    return interval_of([100 * (1 - outcome.speedup_mean("oracle")) for outcome in outcomes])


def _gap_closed(outcomes: Sequence[Outcome]) -> Interval:
    ours, oracles = ([each.gain_s(name) for each in outcomes] for name in ("combined", "oracle"))
    return interval_of_ratio(ours, oracles)


def sweep_json(reports: Mapping[float, Report]) -> dict[str, Any]:
    """Return the reports of several loads as JSON takes them, and their seeds once."""
    first = next(iter(reports.values()))
    loads = {f"{load:g}": report.as_json() for load, report in reports.items()}
    return {"seeds": list(first.seeds), "jobs": first.jobs, "loads": loads}


def _errors(outcomes: Sequence[Outcome], percentile: int) -> dict[str, Interval]:
    return {
        name: interval_of([float(np.percentile(outcome.errors(name), percentile)) for outcome in outcomes])
        for name in ESTIMATORS
    }


def _spread(values: Sequence[float]) -> Spread:
    return Spread(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, min(values), max(values))


def _thin_large(outcome: Outcome) -> tuple[float, float]:
    """Return how many percent of jobs are thin and not of the first level, and of all task time is theirs."""
    trace = outcome.trace
    size_ms = trace.true_ms * trace.widths
    chosen = ~trace.wide & (levels(size_ms) > 0)
    return 100.0 * float(chosen.mean()), 100.0 * float(size_ms[chosen].sum() / size_ms.sum())


AGAINST: Final = "3sigma-paper"
"""What SLearn is compared with: the paper has its own 3Sigma."""
SEGMENTS: Final = (0.04, 1.90)
"""Normalised waiting times between the paper's three segments."""
Table = Mapping[str, Mapping[str, Interval]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def bins(outcomes: Sequence[Outcome], against: str = AGAINST) -> Table:
    """Return by bin its percent of jobs and of task time, the mean completion time over SLearn's, and who is faster.

    Small jobs have less than 1,000 s of task time, thin ones less than three tasks. A bin that is empty in a draw is
    left out.
    """
    found = {}
    for name, wide, large in (
        ("small, thin", False, False),
        ("small, wide", True, False),
        ("large, thin", False, True),
        ("large, wide", True, True),
    ):
        own = [_size_is(outcome, large) & (outcome.trace.wide == wide) for outcome in outcomes]
        if not all(mask.any() for mask in own):
            continue
        pairs = list(zip(outcomes, own, strict=True))
        found[name] = {
            "jobs": interval_of([100.0 * float(mask.mean()) for mask in own]),
            "work": interval_of([100.0 * float(_size(each)[mask].sum() / _size(each).sum()) for each, mask in pairs]),
            "over_slearn": interval_of_ratio(
                [float(each.completion_ms[against][mask].sum()) for each, mask in pairs],
                [float(each.completion_ms["slearn"][mask].sum()) for each, mask in pairs],
            ),
            "faster": interval_of_ratio(
                [100.0 * float(_faster(each, against)[mask].sum()) for each, mask in pairs],
                [float(mask.sum()) for mask in own],
            ),
        }
    return found


def _faster(outcome: Outcome, against: str) -> Mask:
    return np.asarray(outcome.completion_ms["slearn"] < outcome.completion_ms[against])


def _size(outcome: Outcome) -> F64:
    return np.asarray(outcome.trace.true_ms * outcome.trace.widths)


def _size_is(outcome: Outcome, large: bool) -> Mask:
    return np.asarray((_size(outcome) >= THRESHOLDS_MS[0]) == large)


def waiting(outcomes: Sequence[Outcome], against: str = AGAINST) -> Table:
    """Return by segment of normalised waiting time how many percent of jobs are in it, and of whom the fewer wait.

    A job's normalised waiting time is the mean over its tasks from the job's arrival to their start, over the mean
    duration of its tasks. Empty where waiting times were not taken: the engine's runs have none.
    """
    if not all({"slearn", against} <= each.wait_ms.keys() for each in outcomes):
        return {}
    edges = np.array(SEGMENTS)
    found: dict[str, dict[str, list[float]]] = {}
    for each in outcomes:
        ours, theirs = (each.wait_ms[name] / each.trace.true_ms for name in ("slearn", against))
        segment, other = np.searchsorted(edges, ours), np.searchsorted(edges, theirs)
        for number, name in enumerate(("below 0.04", "0.04 to 1.90", "above 1.90")):
            both = (segment == number) & (other == number)
            row = found.setdefault(name, {})
            row.setdefault("slearn", []).append(100.0 * float((segment == number).mean()))
            row.setdefault(against, []).append(100.0 * float((other == number).mean()))
            row.setdefault("both", []).append(100.0 * float(both.mean()))
            if both.any():
                row.setdefault("lower_with_slearn", []).append(100.0 * float((ours < theirs)[both].mean()))
    return {name: {key: interval_of(values) for key, values in row.items()} for name, row in found.items()}


def variation(outcomes: Sequence[Outcome]) -> Table:
    """Return percentiles of the coefficients of variation of task durations: over time, and over space at 3 %.

    Over time: of the mean task durations of all jobs of the first part of the trace that have a feature's value in
    common with the job, the least of its features. Over space: the standard deviation of a job's tasks over their mean
    and the root of 3 % of their number; jobs of one task have none.
    """
    found = {}
    for name, of_jobs in (
        ("time", [each.trace.variation_time for each in outcomes]),
        ("space", [each.trace.variation_space for each in outcomes]),
    ):
        known = [values[np.isfinite(values)] for values in of_jobs]
        if all(len(values) for values in known):
            found[name] = {
                f"p{part}": interval_of([float(np.percentile(values, part)) for values in known]) for part in (50, 90)
            }
    return found


def plot_slearn(outcomes: Sequence[Outcome], report: Report, folder: Path) -> list[Path]:
    """Draw the plots and return their files."""
    by_job = {
        name: share_up_to(
            np.concatenate([each.completion_ms[name] / each.completion_ms["slearn"] for each in outcomes])
        )
        for name in report.speedup_mean
    }
    errors = {name: share_up_to(np.concatenate([each.errors(name) for each in outcomes])) for name in ESTIMATORS}
    drawn = {
        "speedup": _beside(report.speedup_mean, report.paper.speedup_mean, "mean completion time over SLearn's"),
        "speedup-by-job": Panel(
            by_job,
            "completion time over that with SLearn",
            "share of jobs",
            scales=("log", "linear"),
            x_range=(0.1, 100),
        ),
        "error": Panel(errors, "error of a wide job's mean task duration (%)", "share of wide jobs", x_range=(0, 200)),
    }
    if report.over_3sigma:
        label = "3Sigma's mean completion time over SLearn's"
        drawn["sensitivity"] = _beside(report.over_3sigma, report.paper.over_3sigma, label)
    return [panels([panel], folder / f"slearn-{name}.png") for name, panel in drawn.items()]


def _beside(ours: dict[str, Interval], papers: Mapping[str, float], label: str) -> Panel:
    """Return our figures with their intervals over seeds, and the paper's."""
    found = list(ours.values())
    here = Line(list(ours), [each.mean for each in found], [each.low for each in found], [each.high for each in found])
    known = [name for name in ours if name in papers]
    paper = {"paper": Line(known, [papers[name] for name in known])} if known else {}
    return Panel({"here": here} | paper, "", label, level=1.0)

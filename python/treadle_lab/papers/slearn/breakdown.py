"""Who gains by SLearn and why: bins of jobs (NSDI 2022, section 5.2.7), waiting times (5.2.5), variation (4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle_lab.harness.statistics import Interval, interval_of, ratio_of
from treadle_lab.papers.slearn.experiment import Outcome
from treadle_lab.papers.slearn.levels import THRESHOLDS_MS

__all__ = ["AGAINST", "bins", "variation", "waiting"]

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
            "over_slearn": ratio_of(
                [float(each.completion_ms[against][mask].sum()) for each, mask in pairs],
                [float(each.completion_ms["slearn"][mask].sum()) for each, mask in pairs],
            ),
            "faster": ratio_of(
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

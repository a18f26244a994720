"""What the paper says of the architectures, and whether our runs say so too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.lab.reproduce.omega.experiment import Run
from treadle.lab.reproduce.omega.points import Point
from treadle.simulator.cell.cell import Outcome
from treadle.simulator.cell.workload import JobKind

SATURATED = 0.95
"""A scheduler that is busy for so much of the time is saturated."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, with what we found.

    Attributes:
        claim: in short.
        paper: the paper's figure, or that it is a picture.
        ours: our figures.
        holds: whether they agree.
    """

    claim: str
    paper: str
    ours: str
    holds: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return asdict(self)


Outcomes = Mapping[Point, list[Outcome]]
Judge = Callable[[Outcomes], Claim | None]
"""Returns a claim; None where the points that it needs were not run."""


def claims_of(runs: Sequence[Run]) -> list[Claim]:
    """Return the claims that the runs have the points for."""
    outcomes: dict[Point, list[Outcome]] = {}
    for run in runs:
        outcomes.setdefault(run.point, []).append(run.outcome)
    judged = (judge(outcomes) for judge in JUDGES)
    return [claim for claim in judged if claim is not None]


def conflicts(outcomes: Sequence[Outcome], first: str = "SB") -> float:
    """Return the conflict fraction of the schedulers whose names begin with one of these letters, together."""
    chosen = [one for outcome in outcomes for one in outcome.schedulers if one.name[0] in first]
    successes = sum(one.successes for one in chosen)
    return sum(one.failures for one in chosen) / successes if successes else 0.0


def service_conflicts(outcomes: Sequence[Outcome]) -> float:
    """Return the conflict fraction of the service scheduler, whose decisions are the long ones."""
    return conflicts(outcomes, "S")


def busyness(outcomes: Sequence[Outcome], first: str) -> float:
    """Return the mean busyness of the schedulers whose names begin with a letter."""
    return float(np.mean([one.busyness for outcome in outcomes for one in outcome.schedulers if one.name[0] == first]))


def _means(outcomes: Outcomes, name: str, figure: Callable[[Sequence[Outcome]], float]) -> dict[Point, float]:
    return {point: figure(found) for point, found in outcomes.items() if point.architecture == name}


def _compared(claim: str, paper: str, outcomes: Outcomes, more: str, less: str) -> Claim | None:
    """Compare the service schedulers' conflict fractions where two architectures ran at the same settings."""
    a, b = _means(outcomes, more, service_conflicts), _means(outcomes, less, service_conflicts)
    both = {_elsewhere(point, ""): value for point, value in b.items()}
    pairs = [(value, both[_elsewhere(point, "")]) for point, value in a.items() if _elsewhere(point, "") in both]
    if not pairs:
        return None
    mean_a, mean_b = (float(np.mean(values)) for values in zip(*pairs, strict=True))
    ratio = f", {mean_a / mean_b:.2f} times" if mean_b else ""
    return Claim(claim, paper, f"of the service scheduler {mean_a:.3g} and {mean_b:.3g}{ratio}", mean_a > mean_b)


def _elsewhere(point: Point, architecture: str) -> Point:
    return Point(architecture, *(getattr(point, name) for name in Point.__slots__[1:]))


def _coarse(outcomes: Outcomes) -> Claim | None:
    return _compared("coarse detection has more conflicts than fine", "2 to 3 times", outcomes, "omega-seq", "omega")


def _gang(outcomes: Outcomes) -> Claim | None:
    return _compared(
        "gang transactions have more conflicts than incremental ones", "about 2 times", outcomes, "omega-aon", "omega"
    )


def _unscheduled(outcomes: Outcomes) -> Claim | None:
    """Compare batch jobs left behind at the longest service decision that both ran."""
    mesos = _means(outcomes, "mesos", _left_behind)
    shared = {_elsewhere(point, ""): value for point, value in _means(outcomes, "omega", _left_behind).items()}
    both = [(point, value) for point, value in mesos.items() if _elsewhere(point, "") in shared]
    if not both:
        return None
    point, theirs = max(both, key=lambda pair: pair[0].t_job_service_s)
    ours = shared[_elsewhere(point, "")]
    text = f"batch jobs left at t_job {point.t_job_service_s:g} s: Mesos {theirs:.1%}, shared state {ours:.1%}"
    holds = theirs > 0.01 and ours < 0.002
    return Claim("Mesos leaves jobs unscheduled at long service decisions, shared state none", "a picture", text, holds)


def _left_behind(outcomes: Sequence[Outcome]) -> float:
    return float(np.mean([outcome.unscheduled[JobKind.BATCH] for outcome in outcomes]))


def _multi_path(outcomes: Outcomes) -> Claim | None:
    """Compare busyness of single and multi path at the longest decision at which the multi path is not saturated."""
    one = _means(outcomes, "mono1", lambda found: busyness(found, "M"))
    two = {
        _elsewhere(point, ""): value for point, value in _means(outcomes, "mono2", lambda f: busyness(f, "M")).items()
    }
    both = [(point, value) for point, value in one.items() if two.get(_elsewhere(point, ""), 1.0) < SATURATED]
    if not both:
        return None
    point, single = max(both, key=lambda pair: pair[0].t_job_service_s)
    multi = two[_elsewhere(point, "")]
    text = f"busyness at t_job {point.t_job_service_s:g} s: single path {single:.3f}, multi path {multi:.3f}"
    return Claim("a fast path for batch jobs makes the scheduler less busy", "significantly", text, multi < single)


def _balanced(outcomes: Outcomes) -> Claim | None:
    """Compare where one and three batch schedulers are saturated, as t_job of batch jobs grows."""
    ends = [_saturation(_means(outcomes, name, lambda found: busyness(found, "B"))) for name in ("omega", "omega3")]
    one, three = ends
    if one is None or three is None:
        return None
    text = f"saturated from t_job {one:.1f} s and {three:.1f} s, {three / one:.2f} times"
    return Claim(
        "three batch schedulers move saturation",
        "from about 4 s to about 15 s, 3 times",
        text,
        2.5 <= three / one <= 4.0,
    )


def _saturation(busy: Mapping[Point, float]) -> float | None:
    """Return from which t_job of batch jobs on busyness is `SATURATED`, between points by a line; None: nowhere."""
    series = sorted((point.t_job_batch_s, value) for point, value in busy.items())
    for (low_s, low), (high_s, high) in pairwise(series):
        if low < SATURATED <= high:
            return low_s + (high_s - low_s) * (SATURATED - low) / (high - low)
    return None


JUDGES: tuple[Judge, ...] = (_multi_path, _coarse, _gang, _unscheduled, _balanced)

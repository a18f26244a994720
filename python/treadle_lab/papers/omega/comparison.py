"""Comparison of Omega's runs with the original simulator's, within a stated tolerance, and with the paper."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.errors import UserError, percent
from treadle_lab.models.cell import JobKind, Outcome
from treadle_lab.papers.omega.points import Point, Row, Run

TOLERANCES: Final = {
    "wait_batch_s": 0.01,
    "wait_service_s": 0.01,
    "unscheduled_batch": 0.002,
    "unscheduled_service": 0.002,
    "cpu_utilisation": 0.005,
    "busyness": 0.002,
    "conflict_fraction": 0.003,
}
"""Compared figures with their tolerance in addition to random variation."""

DEVIATIONS: Final = 4.0

Key = tuple[Point, str]
"""A point and the name of a scheduler."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The values of one figure over seeds."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one scheduler at one point, ours and the original's."""

    point: Point
    scheduler: str
    figure: str
    ours: Spread
    theirs: Spread

    @property
    def tolerance(self) -> float:
        """Return the maximum difference of the means: 4 sd sqrt(1/n + 1/m), with the larger deviation, and a margin."""
        sd = max(self.ours.sd, self.theirs.sd)
        return DEVIATIONS * sd * sqrt(1 / self.ours.n + 1 / self.theirs.n) + TOLERANCES[self.figure]

    @property
    def within(self) -> bool:
        """Whether they are no further apart."""
        return abs(self.ours.mean - self.theirs.mean) <= self.tolerance

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of a document."""
        facts = {"scheduler": self.scheduler, "figure": self.figure, "ours": self.ours.mean, "theirs": self.theirs.mean}
        return asdict(self.point) | facts | {"tolerance": self.tolerance, "within": self.within}


def read_reference(file: Path) -> dict[Key, list[Row]]:
    """Return the original's rows by point and scheduler.

    Raises:
        UserError: the file cannot be read as such.
    """
    reference: dict[Key, list[Row]] = {}
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                point = Point(
                    row["architecture"],
                    int(row["machines"]),
                    float(row["batch_rate_factor"]),
                    float(row["t_job_service_s"]),
                )
                values: Row = {name: float(row[name]) for name in TOLERANCES}
                reference.setdefault((point, row["scheduler"]), []).append(values)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: not a file of the reference's runs ({error}); see data/omega-simulator/README.md"
        ) from None
    return reference


def spread_of(rows: Sequence[Row], figure: str) -> Spread:
    """Return the spread of one figure of rows of one scheduler at one point."""
    values = [float(row[figure]) for row in rows]
    return Spread(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values))


def rows_by_scheduler(runs: Sequence[Run]) -> dict[Key, list[Row]]:
    """Return our rows by point and scheduler."""
    rows: dict[Key, list[Row]] = {}
    for run in runs:
        for row in run.rows():
            rows.setdefault((run.point, str(row["scheduler"])), []).append(row)
    return rows


def compare(runs: Sequence[Run], reference: Mapping[Key, list[Row]]) -> list[Comparison]:
    """Return all figures of points that both have."""
    ours = rows_by_scheduler(runs)
    return [
        Comparison(key[0], key[1], figure, spread_of(ours[key], figure), spread_of(theirs, figure))
        for key, theirs in reference.items()
        if key in ours
        for figure in TOLERANCES
    ]


SATURATED = 0.95
"""A scheduler is saturated from this busyness on."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, with what we found."""

    claim: str
    paper: str
    """The paper's figure, or that it is a picture."""
    ours: str
    holds: bool


Outcomes = Mapping[Point, list[Outcome]]
Measure = Callable[[Sequence[Outcome]], float]
Judge = Callable[[Outcomes], Claim | None]
"""Returns a claim; None where the points that it needs were not run."""


def outcomes_of(runs: Sequence[Run]) -> dict[Point, list[Outcome]]:
    """Return the outcomes of all seeds by point."""
    outcomes: dict[Point, list[Outcome]] = {}
    for run in runs:
        outcomes.setdefault(run.point, []).append(run.outcome)
    return outcomes


def claims_of(runs: Sequence[Run]) -> list[Claim]:
    """Return the claims that the runs have the points for."""
    outcomes = outcomes_of(runs)
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


def left(kind: JobKind) -> Measure:
    """Return what measures the share of jobs of a kind that are left behind."""
    return lambda outcomes: float(np.mean([outcome.unscheduled[kind] for outcome in outcomes]))


def _both(outcomes: Outcomes, one: str, other: str) -> list[tuple[Point, list[Outcome], list[Outcome]]]:
    """Return where two architectures ran at the same settings: the first one's point, and the outcomes of both."""
    return [
        (point, found, outcomes[twin])
        for point, found in outcomes.items()
        if point.architecture == one and (twin := replace(point, architecture=other)) in outcomes
    ]


def _compared(claim: str, paper: str, outcomes: Outcomes, more: str, less: str) -> Claim | None:
    """Compare the service schedulers' conflict fractions where two architectures ran at the same settings.

    It is judged at the longest decisions with which the second is not saturated: there most conflicts could be.
    """
    both = _both(outcomes, more, less)
    if not both:
        return None
    calm = [each for each in both if busyness(each[2], "S") < SATURATED]
    point, *found = max(calm or both, key=lambda each: (each[0].t_job_service_s, -each[0].t_task_service_s))
    a, b = map(service_conflicts, found)
    ratio = f", {a / b:.2f} times" if b else ""
    text = f"of the service scheduler {a:.3g} and {b:.3g}{ratio}, at t_job {point.t_job_service_s:g} s"
    if len(both) > 1:
        often = sum(service_conflicts(ours) > service_conflicts(theirs) for _, ours, theirs in both)
        text += f"; more at {often} of {len(both)} points"
    return Claim(claim, paper, text, a > b)


def _coarse(outcomes: Outcomes) -> Claim | None:
    return _compared("coarse detection has more conflicts than fine", "2 to 3 times", outcomes, "omega-seq", "omega")


def _gang(outcomes: Outcomes) -> Claim | None:
    return _compared(
        "gang transactions have more conflicts than incremental ones", "about 2 times", outcomes, "omega-aon", "omega"
    )


def _unscheduled(outcomes: Outcomes) -> Claim | None:
    """Compare batch jobs left behind at the longest service decision that both ran."""
    both = _both(outcomes, "mesos", "omega")
    if not both:
        return None
    point, *found = max(both, key=lambda each: each[0].t_job_service_s)
    theirs, ours = map(left(JobKind.BATCH), found)
    shares = f"Mesos {percent(theirs, '.1f')}, shared state {percent(ours, '.1f')}"
    text = f"batch jobs left at t_job {point.t_job_service_s:g} s: {shares}"
    holds = theirs > 0.01 and ours < 0.002
    return Claim("Mesos leaves jobs unscheduled at long service decisions, shared state none", "a picture", text, holds)


def _multi_path(outcomes: Outcomes) -> Claim | None:
    """Compare busyness of single and multi path at the longest decision at which the multi path is not saturated."""
    both = [each for each in _both(outcomes, "mono1", "mono2") if busyness(each[2], "M") < SATURATED]
    if not both:
        return None
    point, one, two = max(both, key=lambda each: each[0].t_job_service_s)
    single, multi = busyness(one, "M"), busyness(two, "M")
    text = f"busyness at t_job {point.t_job_service_s:g} s: single path {single:.3f}, multi path {multi:.3f}"
    return Claim("a fast path for batch jobs makes the scheduler less busy", "significantly", text, multi < single)


def _balanced(outcomes: Outcomes) -> Claim | None:
    """Compare where one and three batch schedulers are saturated, as t_job of batch jobs grows."""
    one, three = (_saturation(_batch_busyness(outcomes, name), "t_job_batch_s") for name in ("omega", "omega3"))
    if one is None or three is None:
        return None
    text = f"saturated from t_job {one:.1f} s and {three:.1f} s, {three / one:.2f} times"
    return Claim(
        "three batch schedulers move saturation",
        "from about 4 s to about 15 s, 3 times",
        text,
        2.5 <= three / one <= 4.0,
    )


def _batch_busyness(outcomes: Outcomes, name: str) -> dict[Point, float]:
    return {point: busyness(found, "B") for point, found in outcomes.items() if point.architecture == name}


def _saturation(busy: Mapping[Point, float], setting: str) -> float | None:
    """Return from which value of a setting on busyness is `SATURATED`, between points by a line; None: nowhere."""
    usual = Point("", 0)
    others = [name for name in Point.__slots__[2:] if name != setting]
    swept = [point for point in busy if all(getattr(point, name) == getattr(usual, name) for name in others)]
    # one cell: that of the most points
    cells = Counter(point.machines for point in swept)
    usual_cell = max(cells, key=cells.__getitem__, default=0)
    series = sorted((getattr(point, setting), busy[point]) for point in swept if point.machines == usual_cell)
    for (low_at, low), (high_at, high) in pairwise(series):
        if low < SATURATED <= high:
            return float(low_at + (high_at - low_at) * (SATURATED - low) / (high - low))
    return None


def _rates(outcomes: Outcomes) -> Claim | None:
    """Say how many times the batch jobs saturate one scheduler, and what 32 schedulers do with the most of them."""
    one, many = _batch_busyness(outcomes, "omega"), _batch_busyness(outcomes, "omega32")
    if not many:
        return None
    most = max(many, key=lambda point: point.batch_rate_factor)
    saturated = _saturation(one, "batch_rate_factor")
    at = f"at {saturated:.1f} times" if saturated else f"not at {most.batch_rate_factor:g} times"
    fractions = [conflicts(outcomes[replace(most, architecture=name)], "B") for name in ("omega", "omega32")]
    text = (
        f"one saturated {at}; at {most.batch_rate_factor:g} times 32 are busy {many[most]:.3f} of the time, and their "
        f"conflict fraction is {fractions[1]:.3g} where that of one is {fractions[0]:.3g}"
    )
    return Claim(
        "one batch scheduler is saturated at some rate of batch jobs; more schedulers help, and conflicts rise",
        "at 2.5, 6 and 9.5 times (clusters A, B, C); up to 32 help",
        text,
        many[most] < min(one[replace(most, architecture="omega")], SATURATED) and fractions[1] >= fractions[0],
    )


def _long_tasks(outcomes: Outcomes) -> Claim | None:
    """Look at long decisions for each task of service jobs."""
    found = {
        point: service_conflicts(some)
        for point, some in outcomes.items()
        if point.architecture == "omega" and (point.t_job_service_s, point.t_task_service_s) == (0.1, 1.0)
    }
    if not found:
        return None
    worst = max(found.values())
    return Claim(
        "few conflicts with t_task of service jobs 1 s, t_job 0.1 s",
        "conflict fraction at most 0.2 (cluster B)",
        f"of the service scheduler {worst:.3g}",
        worst <= 0.2,
    )


def _long_jobs(outcomes: Outcomes) -> Claim | None:
    """Look at where each successful transaction has a conflict."""
    series = sorted(
        (point.t_job_service_s, service_conflicts(found))
        for point, found in outcomes.items()
        if point == Point("omega", point.machines, 1.0, point.t_job_service_s) and point.machines == _usual(outcomes)
    )
    if len(series) < 4:
        return None
    above = next((t_s for t_s, fraction in series if fraction > 1.0), None)
    text = f"above 1 from {above:g} s on" if above else f"{series[-1][1]:.3g} at {series[-1][0]:g} s"
    return Claim(
        "as t_job of service jobs grows, each of their transactions has a conflict",
        "conflict fraction above 1 from about 10 s on (cluster B)",
        text,
        above is not None and 3.0 <= above <= 30.0,
    )


def _usual(outcomes: Outcomes) -> int:
    """Return the machines of the cell that most points of shared state have."""
    return Counter(point.machines for point in outcomes if point.architecture == "omega").most_common(1)[0][0]


JUDGES: tuple[Judge, ...] = (_multi_path, _coarse, _gang, _unscheduled, _balanced, _rates, _long_jobs, _long_tasks)

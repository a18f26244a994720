"""By how much each kind of constraint slows its jobs down, beside table II."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle_lab.harness.statistics import Interval, interval_of
from treadle_lab.papers.phoenix.experiment import Run, Setup
from treadle_lab.papers.phoenix.synthesis import KINDS

SYSTEM: Final = "eagle-c"
WITHOUT: Final = "eagle"
PAPER: Final[Mapping[str, float]] = {kind.name: kind.slowdown for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Of the jobs that have constraints of one kind alone.

    Attributes:
        kind: of constraint.
        jobs: a seed, on average.
        ratio: mean response time with constraints over that without; geometric mean over seeds.
        paper: table II's; None for a kind that is not in it.
    """

    kind: str
    jobs: float
    ratio: Interval
    paper: float | None

    def as_json(self) -> dict[str, Any]:
        """Return it for results."""
        return {
            "value": self.ratio.mean,
            "low": self.ratio.low,
            "high": self.ratio.high,
            "paper": self.paper,
            "jobs": self.jobs,
        }


def slowdowns_of(runs: Sequence[Run], setup: Setup) -> list[Slowdown]:
    """Return the slowdown by kind of constraint; none unless Eagle was run with and without constraints."""
    response_s = {(run.system, run.seed): run.response_s for run in runs if run.system in (SYSTEM, WITHOUT)}
    seeds = [seed for system, seed in response_s if system == SYSTEM and (WITHOUT, seed) in response_s]
    logs: dict[str, list[float]] = {}
    counts: dict[str, list[int]] = {}
    for seed in seeds:
        with_s, without_s = response_s[SYSTEM, seed], response_s[WITHOUT, seed]
        for kind, jobs in _jobs_by_kind(setup, seed).items():
            logs.setdefault(kind, []).append(float(np.log(with_s[jobs].mean() / without_s[jobs].mean())))
            counts.setdefault(kind, []).append(len(jobs))
    order = [*(kind for kind in PAPER if kind in logs), *sorted(set(logs) - set(PAPER))]
    return [
        Slowdown(
            kind,
            float(np.mean(counts[kind])),
            Interval(*(float(np.exp(value)) for value in interval_of(logs[kind]))),
            PAPER.get(kind),
        )
        for kind in order
    ]


def _jobs_by_kind(setup: Setup, seed: int) -> dict[str, list[int]]:
    """Return the places of jobs that have constraints of one kind alone, by kind."""
    found: dict[str, list[int]] = {}
    for place, asked in setup.wanted(seed).asked.items():
        kinds = {one.name for one in (*asked.hard.predicates, *asked.soft.predicates)}
        if len(kinds) == 1:
            found.setdefault(kinds.pop(), []).append(place)
    return found

"""What the paper says of its systems, beside what the runs say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle_lab.harness.statistics import interval_of
from treadle_lab.papers.phoenix.central import CENTRAL
from treadle_lab.papers.phoenix.experiment import CLASSES, Run


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of one system over another's.

    Attributes:
        above: the system whose figure is divided.
        under: the other.
        kind: of jobs.
        figure: a column of runs.
        paper: what the paper says, or the range that it says; None if nothing.
    """

    above: str
    under: str
    kind: str
    figure: str
    paper: float | tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """As in results."""
        return f"{self.above}/{self.under} {self.kind} {self.figure}"


CLAIMS: Final = (
    Claim("eagle-c", "phoenix", "short", "p99_s", 1.9),
    Claim("eagle-c", "phoenix", "short-constrained", "p99_s"),
    Claim("eagle-c", "phoenix", "short-unconstrained", "p99_s", 1.0),
    Claim("eagle-c", "phoenix", "short", "p90_s"),
    Claim("eagle-c", "phoenix", "long", "mean_s", 1.0),
    Claim("eagle-c", "phoenix", "long", "p90_s", 1.0),
    Claim("hawk-c", "phoenix", "short", "p90_s", 4.5),
    Claim("hawk-c", "phoenix", "short", "p99_s", 5.0),
    *(
        Claim("eagle-c", "one-queue-srpt-c", kind, figure)
        for kind, figure in (
            ("short", "p99_s"),
            ("short-constrained", "p99_s"),
            ("short-unconstrained", "p99_s"),
            ("long", "mean_s"),
            ("long", "p90_s"),
        )
    ),
    *(Claim("central-srpt", "central-phoenix", kind, "p99_s") for kind in CLASSES),
    *(Claim("eagle-c", name, kind, "p99_s") for name in CENTRAL for kind in CLASSES),
    Claim("eagle-c", "eagle", "short", "p99_s", 1.7),
    Claim("eagle-c", "eagle", "short", "queueing_p99_s", (2.0, 2.5)),
    Claim("yacc-d-c", "dlwl", "short", "queueing_p99_s", (2.0, 2.5)),
    Claim("hawk-c", "hawk", "short", "p99_s", 20.0),
    Claim("sparrow-c", "sparrow", "short", "p99_s", 20.0),
    *(
        Claim(f"phoenix-without-{part}", "phoenix", kind, "p99_s")
        for part in ("order", "gate", "scarcity", "negotiation")
        for kind in ("short", "short-constrained")
    ),
)

LOST: Final = (
    "table II: the shares and counts of each kind of constraint",
    "figures 2 to 4: the curves",
    "the loads of the paper's runs",
    "the thresholds of admission and reordering",
    "the terms of the Pollaczek-Khinchine estimate: the window of rates, the heartbeat",
    "the slack that limits reordering",
    "everything after section III-C: the algorithm, the evaluation, its workloads",
)
"""What of the paper is not in any text that could be read; the values here are this project's."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The geometric mean over seeds and its 95 % interval."""

    claim: Claim
    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Return it with what the paper says."""
        paper = self.claim.paper
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "paper": list(paper) if isinstance(paper, tuple) else paper,
        }


def ratios_of(runs: Sequence[Run], claims: Sequence[Claim] = CLAIMS) -> list[Ratio]:
    """Return the ratios of which both systems were run."""
    by_system: dict[str, dict[int, Run]] = {}
    for run in runs:
        by_system.setdefault(run.system, {})[run.seed] = run
    found = []
    for claim in claims:
        pairs = _pairs(by_system, claim)
        if pairs:
            spread = interval_of([float(np.log(above / under)) for above, under in pairs])
            found.append(Ratio(claim, *(float(np.exp(value)) for value in (spread.mean, spread.low, spread.high))))
    return found


def _pairs(by_system: Mapping[str, Mapping[int, Run]], claim: Claim) -> list[tuple[float, float]]:
    pairs = []
    for seed, run in by_system.get(claim.above, {}).items():
        other = by_system.get(claim.under, {}).get(seed)
        above = run.figure(claim.kind, claim.figure)
        under = None if other is None else other.figure(claim.kind, claim.figure)
        if above and under:
            pairs.append((above, under))
    return pairs

"""How scarce the machines are that constraints ask for: found once, so that Eagle-C's tail is the paper's.

`python -m treadle_lab.papers.phoenix.calibration TRACE` finds it again; TRACE is as for `treadle reproduce phoenix`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treadle.errors import UserError
from treadle_lab.harness.data import FACEBOOK_2010, GOOGLE, found
from treadle_lab.models.workers.trace import Trace
from treadle_lab.papers.phoenix.experiment import Setup, run_systems
from treadle_lab.papers.phoenix.synthesis import CONSTRAINED, KINDS, made_for
from treadle_lab.papers.phoenix.traces import trace_named

TARGET: Final = 1.7
"""P99 of short jobs under Eagle-C over that under Eagle (section III-B)."""
SEEDS: Final = range(1, 11)
SLOTS: Final = 15_000
STEPS: Final = 8


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found for a trace.

    Attributes:
        supply: the share of machines that meet a constraint is this over the kind's slowdown.
        ratio: that it gives, as `measured`; None if nobody measured it.
        faster: by what arrival times were divided, so that the load is 81 %.
    """

    supply: float
    ratio: float | None
    faster: float


FOUND: Final = {
    "google": Calibration(0.585, 1.74, 1.7),
    "facebook": Calibration(0.585, None, 9.5),
    "yahoo": Calibration(0.585, None, 20.0),
}
"""By how a trace's name begins."""


def calibration_of(trace: str) -> Calibration:
    """Return what was found for a trace; that of Google's for an unknown one, of which nobody measured a ratio."""
    known = next((each for name, each in FOUND.items() if trace.startswith(name)), None)
    return known or Calibration(FOUND["google"].supply, None, FOUND["google"].faster)


def as_json(calibration: Calibration, supply: float, constrained: float) -> dict[str, object]:
    """Return how constraints were made, for results."""
    own = supply == calibration.supply and constrained == CONSTRAINED
    return {
        "target": TARGET,
        "ratio": "eagle-c/eagle short p99_s",
        "supply": supply,
        "measured": calibration.ratio if own else None,
        "seeds": list(SEEDS),
        "slots": SLOTS,
        "faster": calibration.faster,
        "constrained": constrained,
        "kinds": {kind.name: {"slowdown": kind.slowdown, "share": kind.share} for kind in KINDS},
    }


def measured(trace: Trace, faster: float, supply: float, seeds: Sequence[int] = SEEDS, slots: int = SLOTS) -> float:
    """Return the geometric mean over seeds of Eagle-C's P99 over Eagle's, for a trace with ``faster`` in it."""
    setup = Setup(trace, slots, faster, lambda seed: made_for(trace, slots, supply, seed))
    runs = run_systems(["eagle", "eagle-c"], setup, seeds)
    logs = [np.log(run.figure("short", "p99_s") or np.nan) for run in runs]
    return float(np.exp(np.mean(logs[len(seeds) :]) - np.mean(logs[: len(seeds)])))


def calibrated(trace: Trace, faster: float, low: float = 0.2, high: float = 1.2) -> tuple[float, float]:
    """Return the supply at which the ratio is the target, to three digits, and the ratio there."""
    for _ in range(STEPS):
        supply = round((low + high) / 2, 3)
        ratio = measured(trace, faster, supply)
        sys.stdout.write(f"supply {supply:.3f}: {ratio:.3f}\n")
        sys.stdout.flush()
        low, high = (supply, high) if ratio > TARGET else (low, supply)
    return supply, ratio


def main(name: str) -> None:
    """Calibrate on a trace."""
    trace = trace_named(name, found(GOOGLE), found(FACEBOOK_2010))
    if trace is None:
        raise UserError(f"{name}: this installation has no folder data; name a file")
    faster = calibration_of(trace.name).faster
    calibrated(trace.faster(faster), faster)


if __name__ == "__main__":
    main(sys.argv[1])

"""How scarce the machines are that constraints ask for: found once, so that Eagle-C's tail is the paper's.

`python -m treadle.lab.reproduce.phoenix.calibration TRACE` finds it again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from treadle.lab.reproduce.phoenix.experiment import Setup, run_systems
from treadle.lab.reproduce.phoenix.synthesis import synthesised
from treadle.lab.reproduce.phoenix.traces import any_trace
from treadle.simulator.workers.trace import Trace

TARGET: Final = 1.7
"""P99 of short jobs under Eagle-C over that under Eagle (section III-B)."""
SEEDS: Final = range(1, 11)
SLOTS: Final = 15_000
FASTER: Final = 1.7
FOUND: Final = {"google": (0.585, 1.74)}
"""Supply and the ratio that it gives, as `measured`, by how a trace's name begins."""
STEPS: Final = 8


def supply_of(trace: str) -> tuple[float, float | None]:
    """Return the supply for a trace and the ratio that was measured with it; that of Google's for an unknown one."""
    known = next((found for name, found in FOUND.items() if trace.startswith(name)), None)
    return known or (FOUND["google"][0], None)


def measured(trace: Trace, supply: float, seeds: Sequence[int] = SEEDS, slots: int = SLOTS) -> float:
    """Return the geometric mean over seeds of Eagle-C's P99 over Eagle's."""
    setup = Setup(trace, slots, FASTER, lambda seed: synthesised(trace, slots, supply, seed))
    runs = run_systems(["eagle", "eagle-c"], setup, seeds)
    logs = [np.log(run.figure("short", "p99_s") or np.nan) for run in runs]
    return float(np.exp(np.mean(logs[len(seeds) :]) - np.mean(logs[: len(seeds)])))


def calibrated(trace: Trace, low: float = 0.2, high: float = 1.2) -> tuple[float, float]:
    """Return the supply at which the ratio is the target, to three digits, and the ratio there."""
    for _ in range(STEPS):
        supply = round((low + high) / 2, 3)
        ratio = measured(trace, supply)
        sys.stdout.write(f"supply {supply:.3f}: {ratio:.3f}\n")
        sys.stdout.flush()
        low, high = (supply, high) if ratio > TARGET else (low, supply)
    return supply, ratio


if __name__ == "__main__":
    calibrated(any_trace(Path(sys.argv[1])).faster(FASTER))

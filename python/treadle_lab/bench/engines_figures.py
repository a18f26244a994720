"""From waits to figures: what a slow engine costs the jobs of a fast one beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle_lab.bench.paced_load import SHORT_QUEUE
from treadle_lab.sls.load import BenchError
from treadle_lab.sls.run import Run

CONFLICTS: Final = ("NodeFull", "NodeReserved", "QueueMaximum", "UserLimit", "StaleState")
"""Reasons of rejections that others have caused since the engine looked."""

RESAMPLES: Final = 2_000
WITHIN: Final = (2.5, 97.5)
"""Percentiles between which an interval lies."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the jobs of a run waited from an ask to the first commit: milliseconds, by the RM's clock."""

    master_ms: F64
    """For the application master."""
    tasks_ms: F64
    """For the first of the tasks."""

    @property
    def both_ms(self) -> F64:
        """All waits."""
        return np.concatenate((self.master_ms, self.tasks_ms))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two quantiles, and an interval of 95 %."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio and the interval."""
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"

    def holds(self, least: float) -> bool:
        """Say whether the interval reaches a value."""
        return self.low <= least <= self.high


def rows_of(run: Run) -> list[dict[str, Any]]:
    """Return the waits of a run's applications, by column."""
    columns = run.measurements["wait_columns"]
    return [dict(zip(columns, row, strict=True)) for row in run.measurements["waits"]]


def waits_of(run: Run, warm_ms: float, queue: str = SHORT_QUEUE) -> Waits:
    """Return the waits of the jobs of a queue that came later than so long after the first.

    Raises:
        BenchError: there are none, or one was never served.
    """
    rows = [row for row in rows_of(run) if row["queue"].rpartition(".")[2] == queue]
    began = min((row["master_asked_ms"] for row in rows), default=0.0)
    counted = [row for row in rows if row["master_asked_ms"] >= began + warm_ms]
    if not counted:
        raise BenchError(f"{run.mode.name}: no job of queue {queue} came after the first {warm_ms / 1000:g} s")
    if any(row[name] < 0 for row in counted for name in ("master_wait_ms", "tasks_wait_ms")):
        raise BenchError(f"{run.mode.name}: some job of queue {queue} was never served")
    return Waits(*(np.array([row[name] for row in counted]) for name in ("master_wait_ms", "tasks_wait_ms")))


def quantile(waits: Sequence[Waits], at: float) -> float:
    """Return a quantile of the waits of several runs, pooled."""
    return float(np.quantile(np.concatenate([each.both_ms for each in waits]), at))


def ratio_of(those: Sequence[Waits], over: Sequence[Waits], at: float, seed: int = 1) -> Ratio:
    """Return the quotient of a pooled quantile of some runs over that of others.

    The interval is of a bootstrap: pairs of runs are drawn, then jobs of each.

    Args:
        those: a run each round
        over: a run of the same round each
        at: the quantile
        seed: of the draws
    """
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(RESAMPLES):
        pairs = random.integers(len(those), size=len(those))
        quantiles = [
            np.quantile(np.concatenate([random.choice(side[at_].both_ms, len(side[at_].both_ms)) for at_ in pairs]), at)
            for side in (those, over)
        ]
        drawn.append(quantiles[0] / quantiles[1])
    low, high = np.percentile(drawn, WITHIN)
    return Ratio(round(quantile(those, at) / quantile(over, at), 3), round(float(low), 3), round(float(high), 3))


@dataclass(frozen=True, slots=True)
class Side:
    """What the short jobs of a mode waited."""

    mode: str
    runs: int
    jobs: int
    p50_ms: float
    p99_ms: float
    masters_p99_ms: float
    tasks_p99_ms: float
    placed_natively: int
    rejected: int


def side_of(name: str, runs: Sequence[Run], waits: Sequence[Waits]) -> Side:
    """Return the figures of a mode's runs."""
    tasks = np.concatenate([each.tasks_ms for each in waits])
    masters = np.concatenate([each.master_ms for each in waits])
    shims = [run.measurements.get("shim") or {} for run in runs]
    quantiles = quantile(waits, 0.5), quantile(waits, 0.99), np.quantile(masters, 0.99), np.quantile(tasks, 0.99)
    shown = [round(float(figure), 2) for figure in quantiles]
    natively, rejected = (sum(int(shim.get(key, 0)) for shim in shims) for key in ("PlacedNatively", "Rejected"))
    return Side(name, len(runs), len(tasks), shown[0], shown[1], shown[2], shown[3], natively, rejected)


def engines_of(run: Run) -> dict[str, dict[str, Any]]:
    """Return what each engine of a run did, by its name; the name of one that was alone is empty."""
    alone = run.measurements.get("shim") or {}
    conflicts = sum(int(alone.get(f"Rejected{reason}", 0)) for reason in CONFLICTS)
    one = {"": {"committed": alone.get("Committed", 0), "rejected": conflicts}}
    found = {}
    for name, figures in (run.measurements.get("engines") or one).items():
        committed, conflicted = int(figures["committed"]), int(figures["rejected"])
        found[name] = {
            "committed": committed,
            "conflicts": conflicted,
            "conflict_fraction": round(conflicted / committed, 4) if committed else None,
        }
    return found


def as_json(sides: Sequence[Side], ratios: Mapping[str, Ratio]) -> dict[str, Any]:
    """Return the figures for the file."""
    return {
        "modes": {side.mode: asdict(side) for side in sides},
        "p99_ratios": {name: asdict(ratio) for name, ratio in ratios.items()},
    }

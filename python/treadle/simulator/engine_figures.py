"""What is measured of each of several engines: how busy it was, how often it conflicted, how long jobs waited."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """What one engine did. Decision time is useful if its transaction succeeds, wasted if it conflicts, else empty."""

    name: str
    busyness: float
    """Useful and wasted decision time over the time of the run."""
    conflict_fraction: float
    """Conflicts over successful transactions: 3 means four attempts each. Infinite if nothing else happened."""
    wait_mean_s: float
    """From an application's first ask to the first attempt to place it."""
    wait_p50_s: float
    wait_p99_s: float
    useful_s: float
    wasted_s: float
    empty_s: float
    decisions: int
    applications: int
    """That it tried to place."""
    transactions: int
    """That succeeded: something was placed, and nothing conflicted."""
    conflicts: int
    empty: int
    """Attempts that placed nothing and conflicted with nobody."""
    placed: int
    """Containers."""
    retries: int
    """Attempts after the first of an application to get what it asks for."""
    given_up: int
    """Applications that went to the fallback after too many conflicts."""
    moved: int
    """Applications that it served and that another engine serves since."""
    over_claim: int
    """Transactions cut short by its claim."""
    too_large: int
    """Transactions refused since they must be whole and have too many containers."""


class EngineCounts:
    """The same while a simulation runs, by the same names; times in milliseconds."""

    def __init__(self) -> None:
        self.useful_ms = self.wasted_ms = self.empty_ms = 0
        self.decisions = self.transactions = self.conflicts = self.empty = self.placed = 0
        self.retries = self.given_up = self.moved = self.over_claim = self.too_large = 0
        self.waits_ms: list[int] = []

    def figures(self, name: str, span_ms: int) -> EngineFigures:
        """Return the figures of a run, given how long it took."""
        waits_s = np.array(self.waits_ms or [0]) / 1000.0
        p50, p99 = (float(np.percentile(waits_s, part)) for part in (50, 99))
        counts = {each.name: getattr(self, each.name) for each in fields(EngineFigures) if hasattr(self, each.name)}
        return EngineFigures(
            name=name,
            busyness=(self.useful_ms + self.wasted_ms) / max(span_ms, 1),
            conflict_fraction=self._conflict_fraction(),
            wait_mean_s=float(waits_s.mean()),
            wait_p50_s=p50,
            wait_p99_s=p99,
            useful_s=self.useful_ms / 1000.0,
            wasted_s=self.wasted_ms / 1000.0,
            empty_s=self.empty_ms / 1000.0,
            applications=len(self.waits_ms),
            **counts,
        )

    def _conflict_fraction(self) -> float:
        if self.transactions:
            return self.conflicts / self.transactions
        return float("inf") if self.conflicts else 0.0

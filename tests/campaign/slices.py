"""One stretch of work of a part of the campaign: its time, its seed, and what it counted and found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_MINUTES = 60.0


@dataclass
class Slice:
    """What one run of a part does and leaves behind.

    Attributes:
        part: its name.
        seed: where its random choices come from; each slice of a part has another.
        minutes: how long it may take, at most an hour. What is under way then is finished.
        state: what the last slice of the part left for this one, and this one leaves for the next.
        options: settings of the test.
        say: shows progress.
    """

    part: str
    seed: int
    minutes: float
    state: dict[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    say: Callable[[str], None] = print
    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[float]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    _begin_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Refuse a slice that is too long.

        Raises:
            ValueError: it is, or has no length.
        """
        if not 0 < self.minutes <= LONGEST_MINUTES:
            raise ValueError(f"--minutes is {self.minutes:g}: it must lie between 0 and {LONGEST_MINUTES:g}")

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 when it is over."""
        return max(0.0, 60 * self.minutes - self.elapsed_s)

    def add(self, name: str, number: int = 1) -> None:
        """Count."""
        self.counts[name] += number

    def sample(self, name: str, value: float) -> None:
        """Note a measured value."""
        self.samples.setdefault(name, []).append(round(value, 4))

    def find(self, what: str) -> None:
        """Note a defect: it is shown, kept with the seed, and makes the run exit with an error."""
        self.say(f"FOUND in {self.part}, seed {self.seed}: {what}")
        self.findings.append({"seed": self.seed, "what": what[:2000]})

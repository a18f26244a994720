"""Fields of a line turned into numbers, and what is said where they are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from treadle.workload.traces.errors import WorkloadError, wrong

MS_MAX = 2**53
"""The longest time and the latest arrival: beyond it milliseconds are no longer exact in a float."""

TASKS_MAX = 10_000_000
"""The most tasks that the jobs of one file may have together; a number beyond it is rather a mistake."""


@dataclass(frozen=True, slots=True)
class Place:
    """A record of a file."""

    path: Path
    line: int

    def wrong(self, field: str, text: str) -> WorkloadError:
        """Return the error for a field of this record."""
        return wrong(self.path, f"line {self.line}", f"{field}: {text}" if field else text)

    def count(self, field: str, text: str, least: int = 0) -> int:
        """Return a whole number of at least ``least``."""
        try:
            value = int(text)
        except ValueError:
            raise self.wrong(field, f"{text[:40]!r} is no whole number") from None
        if value < least:
            raise self.wrong(field, f"{value} is less than {least}")
        return value

    def amount(self, field: str, text: str) -> float:
        """Return a finite number that is not negative."""
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(field, f"{text[:40]!r} is no number") from None
        if not 0.0 <= value < float("inf"):
            raise self.wrong(field, f"{text[:40]} must be finite and not negative")
        return value

    def time_ms(self, field: str, seconds: str) -> int:
        """Return seconds as milliseconds."""
        value = self.amount(field, seconds) * 1000
        if value > MS_MAX:
            raise self.wrong(field, f"{seconds[:40]} s is out of all reason; times are in seconds")
        return round(value)

    def durations_ms(self, field: str, seconds: str) -> npt.NDArray[np.int64]:
        """Return durations in seconds, separated by spaces, as milliseconds; each lasts at least one."""
        if not seconds:
            return np.zeros(0, np.int64)
        try:
            values = np.array(seconds.split(), np.float64) * 1000
        except ValueError as error:
            raise self.wrong(field, f"{error}; durations are numbers separated by spaces") from None
        if not np.all((values >= 0) & (values <= MS_MAX)):
            raise self.wrong(field, "durations must be finite seconds and not negative")
        return np.maximum(1, np.rint(values)).astype(np.int64)

    def columns(self, found: Sequence[str], wanted: int) -> None:
        """Check that a line has as many columns as it should."""
        if len(found) != wanted:
            raise self.wrong("", f"{len(found)} columns where {wanted} are wanted")

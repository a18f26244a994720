"""Bounds what the plan listener's process logs: what others send must not push all other lines out of a bounded log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from treadle.am.rates import Rate

LINES: Final = Rate(100, 0.5)
"""Lines at once, and in each second in the long run."""


class LineLimit(logging.Filter):
    """Lets a number of records through; the first after a gap reports how many were left out."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._left, self._at_s = LINES.burst, clock_s()
        self._left_out = 0
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        with self._lock:
            now_s = self._clock_s()
            self._left = min(LINES.burst, self._left + max(now_s - self._at_s, 0.0) * LINES.per_s)
            self._at_s = now_s
            if self._left < 1.0:
                self._left_out += 1
                return False
            self._left -= 1.0
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.msg, record.args = f"({left_out} lines were left out) {record.getMessage()}", ()
        return True

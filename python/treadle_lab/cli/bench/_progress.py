"""The line that shows how far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.status import Status

Seen = dict[str, Any]
"""What a run has reported of itself so far."""


class RunProgress:
    """Shows a run's label, what is done of it, and for how long it runs."""

    def __init__(self, status: Status, what: Callable[[Seen], str]) -> None:
        """Show nothing yet.

        Args:
            status: where it is shown
            what: words for what is done
        """
        self._status = status
        self._what = what
        self._label = ""
        self._since_s = 0.0

    def show(self, label: str, seen: Seen) -> None:
        """Show a run; with another label than before its time begins."""
        if label != self._label:
            self._label, self._since_s = label, time.monotonic()
        self._status.update(f"{label}: {self._what(seen)}, {time.monotonic() - self._since_s:.0f} s")

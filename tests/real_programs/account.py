"""The account of one part: who placed its containers, and after which events the books were compared."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field


class ProgramError(Exception):
    """A program or the books are not as they must be; the text is the reason on the part's line."""


@dataclass
class Account:
    """Filled while a part runs, printed as one line when it ends.

    Attributes:
        name: the part.
        treadle: containers placed by Treadle.
        native: containers placed by the stock scheduler while an engine held the lease. Any is a failure.
        before_lease: containers placed by the stock scheduler after a start of the RM, until an engine held the lease.
        compared: the events after which the books were compared and added up.
    """

    name: str
    treadle: int = 0
    native: int = 0
    before_lease: int = 0
    compared: list[str] = field(default_factory=list)
    _begin_s: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Show progress on stderr."""
        print(f"{self.name:16} {self._elapsed_s:4.0f} s  {text}", file=sys.stderr, flush=True)

    def line(self, reason: str = "") -> str:
        """Return the part's line; a reason makes it a failure."""
        by = f"{self.treadle} / {self.native + self.before_lease}"
        events = ", ".join(self.compared) or "nothing"
        late = f"; {self.before_lease} by the CapacityScheduler before the lease" if self.before_lease else ""
        why = f"{' '.join(reason.split())}; before that: " if reason else ""
        verdict = "FAILED" if reason else "ok"
        return f"{self.name:16} {by:>9}  {verdict:6}  {why}{events}{late}; {self._elapsed_s:.0f} s"

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._begin_s

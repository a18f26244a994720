"""How often the ResourceManager turned down proposals for an application, by reason; for `treadle explain`."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import I32, U8, Records
from treadle.events import Fate

APPLICATIONS_MAX: Final = 4096
"""Applications of which it is kept; the one whose first rejection is oldest is dropped first."""


class TurnedDown:
    """Counts by application and fate. Nothing is decided by them."""

    def __init__(self) -> None:
        self.counts: dict[int, dict[int, int]] = {}

    def note(self, batch: Records, positions: I32, fates: U8) -> None:
        """Take the fates of proposals of an answer; 0 is a commit, and what is only observed is nobody's refusal."""
        for at in np.flatnonzero((fates != Fate.COMMITTED) & (fates != Fate.OBSERVED)).tolist():
            position, fate = int(positions[at]), int(fates[at])
            if not 0 <= position < len(batch):
                continue
            application = int(batch["application"][position])
            counts = self.counts.get(application)
            if counts is None:
                if len(self.counts) >= APPLICATIONS_MAX:
                    del self.counts[next(iter(self.counts))]
                counts = self.counts[application] = {}
            counts[fate] = counts.get(fate, 0) + 1

    def drop(self, application: int) -> None:
        """Forget an application."""
        self.counts.pop(application, None)

    def follow(self, before: TurnedDown, apps: I32) -> None:
        """Take over what was counted before a snapshot; ``apps`` has the new index of each old application, or -1."""
        kept = {int(apps[old]): counts for old, counts in before.counts.items() if old < len(apps) and apps[old] >= 0}
        for application, counts in self.counts.items():
            found = kept.setdefault(application, {})
            for fate, count in counts.items():
                found[fate] = found.get(fate, 0) + count
        self.counts = dict(list(kept.items())[-APPLICATIONS_MAX:])

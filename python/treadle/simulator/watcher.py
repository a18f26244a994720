"""What changed on the simulated cluster since somebody looked last, for whom steps of containers do not matter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treadle.compiled.array_types import I32
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.state import State
from treadle.simulator.cursor import by_table, changed


class Seen(NamedTuple):
    """Applications in the order in which they changed: in more than what they use, and in what they ask for."""

    themselves: I32
    asking: I32


class Watcher:
    """How far somebody has looked."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self._version = 0

    def look(self, state: State) -> Seen:
        """Return what changed since the last call."""
        since, newest = self._version, int(state.clock[tables.VERSION])
        if newest == since:
            nobody = np.zeros(0, np.int32)
            return Seen(nobody, nobody)
        _, apps, rows, _ = by_table(state, changed(state, since))
        state.clock[tables.READ] = self._version = newest
        asking = state.rows["app"][rows]
        first = np.sort(np.unique(asking, return_index=True)[1])
        return Seen(apps[state.apps["own_version"][apps] > since], asking[first])

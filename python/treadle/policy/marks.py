"""What a decide keeps of each application and of each request row: begun anew, keys put in by parts.

Applications that have ended are left as they are. There may be many times as many of them, and nobody looks at them.
"""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING

from treadle.compiled.functions import kernel
from treadle.model.queues import FIFO

if TYPE_CHECKING:
    from treadle.compiled.array_types import F64, I32, U8, Records


@kernel
def begin_marks(apps: Records, which: I32, listed: I32) -> None:
    """Begin the records (`treadle.policy.state.APPLICATION`) of some applications; ``listed`` has the ranked ones."""
    for app in which:
        apps[app].key = 0.0
        apps[app].work = 0.0
        apps[app].share = 0.0
        apps[app].part = 1.0
        apps[app].level = -1
        apps[app].rank = 0
        apps[app].band = 0
        apps[app].done = 0
        apps[app].ahead = 0
    for rank in range(len(listed)):
        apps[listed[rank]].rank = rank


@kernel
def begin_rows(rows: Records, quota: int) -> None:
    """Begin the records of all rows (`treadle.policy.state.ROW`): none may be served, each as far as ``quota``."""
    for row in range(len(rows)):
        rows[row].quota = quota
        rows[row].may = 0
        rows[row].done = 0
        rows[row].nearest = 0
        rows[row].held = 0
        rows[row].random = 0


@kernel
def set_bands(apps: Records, which: I32, model: Records, orders: U8) -> None:
    """Set the bands of some applications: priority comes first where the queue's own ordering policy is fifo."""
    for app in which:
        queue = model[app].queue
        if queue >= 0 and orders[queue] == FIFO:
            apps[app].band = -model[app].priority


@kernel
def take_keys(apps: Records, which: I32, key: F64) -> None:
    """Put the keys of some applications into their records; what is no number comes last."""
    for app in which:
        apps[app].key = inf if isnan(key[app]) else key[app]

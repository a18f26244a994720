"""What a decide keeps of each application: begun anew for those that there are, keys put in by parts.

Those that have ended are left as they are. There may be many times as many of them, and nobody looks at them.
"""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING

from treadle.compiled.functions import kernel

if TYPE_CHECKING:
    from treadle.compiled.array_types import F64, I32, Records


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
        apps[app].done = 0
        apps[app].ahead = 0
    for rank in range(len(listed)):
        apps[listed[rank]].rank = rank


@kernel
def take_keys(apps: Records, which: I32, key: F64) -> None:
    """Put the keys of some applications into their records; what is no number comes last."""
    for app in which:
        apps[app].key = inf if isnan(key[app]) else key[app]

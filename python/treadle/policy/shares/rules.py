"""The compiled steps of the share that was chosen. Written by `python -m treadle.policy.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.shares import capacity, deficit, hdrf, none

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch

RULES: Final = {"capacity": 0, "deficit": 1, "hdrf": 2, "none": 3}
"""The number of each file with compiled steps."""


@inner
def begin(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Work out what every queue is owed in the partition."""
    if knobs.share == 0:
        capacity.begin(view, scratch, knobs, partition)
    if knobs.share == 1:
        deficit.begin(view, scratch, knobs, partition)
    if knobs.share == 2:
        hdrf.begin(view, scratch, knobs, partition)
    if knobs.share == 3:
        none.begin(view, scratch, knobs, partition)


@inner
def pick(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> int:
    """Return the leaf queue that is served next, or -1."""
    if knobs.share == 0:
        return capacity.pick(view, scratch, knobs, partition)
    if knobs.share == 1:
        return deficit.pick(view, scratch, knobs, partition)
    if knobs.share == 2:
        return hdrf.pick(view, scratch, knobs, partition)
    if knobs.share == 3:
        return none.pick(view, scratch, knobs, partition)
    return -1


@inner
def note(view: View, scratch: Scratch, knobs: Knobs, leaf: int, row: int, partition: int) -> None:
    """Follow a container that was just proposed for an ask of a leaf queue."""
    if knobs.share == 0:
        capacity.note(view, scratch, knobs, leaf, row, partition)
    if knobs.share == 1:
        deficit.note(view, scratch, knobs, leaf, row, partition)


@inner
def update(view: View, scratch: Scratch, knobs: Knobs, at: int, partition: int) -> None:
    """Follow a change of the use or the asks of a leaf of the tree."""
    if knobs.share == 1:
        deficit.update(view, scratch, knobs, at, partition)
    if knobs.share == 2:
        hdrf.update(view, scratch, knobs, at, partition)
    if knobs.share == 3:
        none.update(view, scratch, knobs, at, partition)


@inner
def end(view: View, scratch: Scratch, knobs: Knobs, partition: int) -> None:
    """Keep what goes on when all is computed anew."""
    if knobs.share == 1:
        deficit.end(view, scratch, knobs, partition)

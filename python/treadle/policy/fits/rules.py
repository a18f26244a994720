"""The compiled steps of the fit that was chosen. Written by `python -m treadle.policy.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner
from treadle.policy.fits import keyed, packing

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import Knobs, Scratch

RULES: Final = {"keyed": 0, "packing": 1}
"""The number of each file with compiled steps."""


@inner
def score(view: View, scratch: Scratch, knobs: Knobs, row: int, node: int, level: int) -> float:
    """Return how well an ask fits on a node with room."""
    if knobs.fit == 0:
        return keyed.score(view, scratch, knobs, row, node, level)
    if knobs.fit == 1:
        return packing.score(view, scratch, knobs, row, node, level)
    return 0.0
